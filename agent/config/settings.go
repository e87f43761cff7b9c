package config

import "time"

// declarations declares the settings of c, in reading order. A new setting needs a field of Config and an entry here;
// 'go test ./agent/config -update' then writes the schema and README.md.
func (c *Config) declarations() []Setting {
	return []Setting{
		{Key: "pipelines.path", Field: &c.Pipelines.Path, Default: "./pipelines", Required: true,
			Example:     "/etc/conduit/pipelines",
			Description: "Directory of the pipeline files."},
		{Key: "pipelines.on-failed-update", Field: &c.Pipelines.OnFailedUpdate, Default: "rollback",
			Values: []string{"rollback", "hold"},
			Description: "Action when the new version of a running pipeline cannot start: rollback runs the last good " +
				"version again, hold keeps trying to start the new one."},
		{Key: "pipelines.confirm", Field: &c.Pipelines.Confirm, Default: 5 * time.Second,
			Description: "How long a new version of a pipeline must run to count as good. A version that fails " +
				"sooner is handled like one that cannot start."},
		{Key: "pipelines.drain-timeout", Field: &c.Pipelines.DrainTimeout, Default: 30 * time.Second,
			Description: "How long a stopping pipeline may take to settle its in-flight records. After that it is " +
				"stopped at once, and these records are delivered again later. 0s: no limit."},
		{Key: "pipelines.deletion-grace", Field: &c.Pipelines.DeletionGrace, Default: 10 * time.Second,
			Description: "How long a pipeline keeps running after its file is gone. If the file comes back " +
				"in time, nothing changes."},
		{Key: "pipelines.cleanup-delay", Field: &c.Pipelines.CleanupDelay, Default: 10 * time.Minute,
			Description: "How long the positions of a deleted pipeline are kept before its connectors clean up."},
		{Key: "pipelines.ack-timeout", Field: &c.Pipelines.AckTimeout, Default: 5 * time.Minute,
			Description: "How long a destination may hold records without writing any, or a source may take for an " +
				"acknowledgement, before the pipeline is restarted. The time of sdk.batch.delay and of sdk.rate.* " +
				"does not count, and a destination may wait for more records to fill a batch. 0s: no limit."},
		{Key: "pipelines.allowed-paths", Field: &c.Pipelines.AllowedPaths, List: true, Secrecy: Public,
			Example: "/var/lib/conduit,/var/log",
			Description: "Directories and files, separated by commas, that settings of pipelines may name: what " +
				"built-in connectors and processors read or write, and ${file:...}. Empty allows all paths except " +
				"those of the agent itself."},
		{Key: "pipelines.exit-on-degraded", Field: &c.Pipelines.ExitOnDegraded,
			Description: "Exit when a pipeline fails for good."},
		{Key: "pipelines.status-files", Field: &c.Pipelines.StatusFiles, Default: true, Secrecy: Public,
			Description: "Write the status of each pipeline file into the directory of db.sqlite.path, for tools that " +
				"deploy files and cannot use the API."},
		{Key: "pipelines.error-recovery.min-delay", Field: &c.Pipelines.ErrorRecovery.MinDelay, Default: time.Second,
			Description: "Pause before the first restart of a failed pipeline."},
		{Key: "pipelines.error-recovery.max-delay", Field: &c.Pipelines.ErrorRecovery.MaxDelay,
			Default:     10 * time.Minute,
			Description: "Longest pause between two restarts of a failed pipeline."},
		{Key: "pipelines.error-recovery.backoff-factor", Field: &c.Pipelines.ErrorRecovery.BackoffFactor, Default: 2,
			Min: 1, Example: "3",
			Description: "Growth of the pause from one restart to the next."},
		{Key: "pipelines.error-recovery.max-retries", Field: &c.Pipelines.ErrorRecovery.MaxRetries, Default: -1,
			Min: -1, Example: "5",
			Description: "Restarts before a pipeline counts as failed for good. -1: no limit."},
		{Key: "pipelines.error-recovery.max-retries-window", Field: &c.Pipelines.ErrorRecovery.MaxRetriesWindow,
			Default:     5 * time.Minute,
			Description: "A failure this long ago no longer counts as a restart."},

		{Key: "connectors.path", Field: &c.Connectors.Path, Default: "./connectors", Required: true,
			Example:     "/usr/lib/conduit/connectors",
			Description: "Directory of the connector executables."},
		{Key: "connectors.environment", Field: &c.Connectors.Environment, Default: "inherit", Required: true,
			List:    true,
			Example: "PATH,HOME,LANG,TZ,TMPDIR,SSL_CERT_*",
			Description: "Variables of the agent's environment that connector executables get: inherit for all except " +
				"those of the agent itself, or names separated by commas. A * at the end of a name matches any ending."},
		{Key: "connectors.writable-by-others", Field: &c.Connectors.WritableByOthers, Default: "warn",
			Values: []string{"warn", "refuse"},
			Description: "Action for a connector executable that a user other than root and the agent's owns or may " +
				"write, or whose directory such a user owns or may write: warn, or refuse to run it."},
		{Key: "connectors.sandbox", Field: &c.Connectors.Sandbox, Default: "off",
			Values: []string{"off", "paths", "strict"},
			Description: "What connector executables may do, on Linux with Landlock: off allows all that the agent " +
				"may do; paths allows only files of the system, their own, and those in connectors.sandbox-paths; " +
				"strict also forbids the network."},
		{Key: "connectors.sandbox-paths", Field: &c.Connectors.SandboxPaths, List: true,
			Example: "/srv/data:rw,/etc/kafka",
			Description: "Directories and files, separated by commas, that connectors in the sandbox may read. They " +
				"may also change those that end with :rw."},
		{Key: "connectors.max-message-bytes", Field: &c.Connectors.MaxMessageBytes, Default: 16 << 20, Min: 1 << 20,
			Example: "67108864",
			Description: "Largest message with records, in bytes, that connector executables may send. One such " +
				"message at a time is in memory in addition to the windows of sources."},
		{Key: "connectors.max-receive-record-size", Field: &c.Connectors.MaxReceiveSize, Default: 4 << 20, Min: 1,
			Example: "67108864",
			Description: "Largest message with records, in bytes, that is sent to connector executables. It applies to " +
				"executables made with Conduit's SDK since 0.14 or with the SDK of this agent."},
		{Key: "connectors.max-schemas", Field: &c.Connectors.MaxSchemas, Default: 1000, Min: 1, Example: "100",
			Description: "Schemas that a connector may create while the agent runs. Creating the same " +
				"schema again does not count."},
		{Key: "connectors.max-schema-bytes", Field: &c.Connectors.MaxSchemaBytes, Default: 16 << 20, Min: 1 << 10,
			Example:     "1048576",
			Description: "Bytes of schemas that a connector may create while the agent runs."},
		{Key: "connectors.schema-access", Field: &c.Connectors.SchemaAccess, Default: "own",
			Values: []string{"own", "any"},
			Description: "Schemas that a connector may read: own for the schemas of its pipeline and schemas without a " +
				"connector, any also for the schemas of other pipelines."},
		{Key: "connectors.exec.enabled", Field: &c.Connectors.Exec.Enabled,
			Description: "Allow pipelines to run commands with the built-in connector exec. Everyone who can change a " +
				"pipeline can then run any command as the user of the agent, outside connectors.sandbox."},

		{Key: "processors.path", Field: &c.Processors.Path, Default: "./processors", Required: true,
			Example:     "/usr/lib/conduit/processors",
			Description: "Directory of the processors that are WebAssembly modules."},
		{Key: "processors.timeout", Field: &c.Processors.Timeout, Default: 2 * time.Minute,
			Description: "How long a processor, or its condition, may take for one record, including retries. A " +
				"record that takes longer is refused. If the processor cannot be interrupted, its pipeline is " +
				"restarted. 0s: no limit."},
		{Key: "processors.memory", Field: &c.Processors.Memory, Default: 512 << 20, Min: 1 << 20, Example: "134217728",
			Description: "Memory in bytes that an instance of a module may use."},
		{Key: "processors.egress.enabled", Field: &c.Processors.Egress.Enabled,
			Description: "Allow modules to send HTTP requests to the destinations in their setting sdk.egress.allow."},
		{Key: "processors.egress.allow", Field: &c.Processors.Egress.Allow, List: true,
			Example: "api.example.com,https://example.com:8443",
			Description: "Destinations, separated by commas, to which modules may ask to send requests, such as " +
				"api.example.com or https://example.com:8443. Empty: any."},
		{Key: "processors.egress.secret-refs", Field: &c.Processors.Egress.SecretRefs, List: true, Secrecy: Public,
			Example: "api-key",
			Description: "Names, separated by commas, of secrets that modules may send as authorization. The secret " +
				"name is the value of the variable CONDUIT_SECRET_NAME. Empty: any."},
		{Key: "processors.egress.timeout", Field: &c.Processors.Egress.Timeout, Default: 30 * time.Second,
			Description: "Longest time that an HTTP request of a module may take. 0s: as long as the module asks for."},
		{Key: "processors.egress.max-response-bytes", Field: &c.Processors.Egress.MaxResponseBytes, Default: 4 << 20,
			Example: "1048576",
			Description: "Largest response, in bytes, to an HTTP request of a module. 0: as large " +
				"as the module asks for."},

		{Key: "db.sqlite.path", Field: &c.DB.SQLite.Path, Default: "conduit.db", Required: true,
			Example:     "/var/lib/conduit/conduit.db",
			Description: "File of the store, which keeps declared pipelines, positions and history."},
		{Key: "db.sqlite.network-filesystem", Field: &c.DB.SQLite.NetworkFileSystem, Secrecy: Public,
			Description: "Allow db.sqlite.path on a network file system, or on one that a program serves (FUSE). It " +
				"must support locks, shared memory and fsync, and only one machine may use it."},
		{Key: "db.commit-interval", Field: &c.DB.CommitInterval, Default: 50 * time.Millisecond,
			Description: "Shortest time between two commits of positions, or of states, under load."},
		{Key: "db.history.max-age", Field: &c.DB.History.Age, Default: 30 * 24 * time.Hour,
			Description: "How long the history of a deleted pipeline is kept. It does not contain the " +
				"values of secret settings."},
		{Key: "db.history.max-pipelines", Field: &c.DB.History.Pipelines, Default: 1000, Example: "100",
			Description: "Deleted pipelines whose history is kept. The oldest deletions are forgotten first."},
		{Key: "db.history.max-bytes", Field: &c.DB.History.Bytes, Default: int64(16 << 20), Example: "1048576",
			Description: "Bytes of history of deleted pipelines that are kept."},

		{Key: "dead-letters.max-count", Field: &c.DeadLetters.Count, Default: int64(1_000_000), Example: "100000",
			Description: "Dead letters that are kept for replay, in a file next to db.sqlite.path. When the limit is " +
				"reached, the oldest dead letters of the largest queue are dropped. 0: no limit."},
		{Key: "dead-letters.max-bytes", Field: &c.DeadLetters.Bytes, Default: int64(1 << 30), Example: "104857600",
			Description: "Bytes of dead letters that are kept. 0: no limit."},
		{Key: "dead-letters.max-age", Field: &c.DeadLetters.Age, Default: 30 * 24 * time.Hour,
			Description: "How long dead letters are kept. 0s: no limit."},

		{Key: "memory.limit", Field: &c.Memory.Limit, Min: -1, Example: "536870912",
			Description: "Memory in bytes that the process of the agent may use. Sources wait before they read more. " +
				"0: nine tenths of the limit of the control group, if there is one; -1: no limit."},

		{Key: "log.level", Field: &c.Log.Level, Default: "info",
			Values:      []string{"trace", "debug", "info", "warn", "error"},
			Description: "Lowest level that is logged."},
		{Key: "log.format", Field: &c.Log.Format, Default: "cli", Values: []string{"cli", "json"},
			Description: "Format of log lines: cli for people, json for machines."},

		{Key: "api.enabled", Field: &c.API.Enabled, Default: true,
			Description: "Serve the REST API, the inspector and the explorer."},
		{Key: "api.http.address", Field: &c.API.HTTP.Address, Default: "127.0.0.1:8080", Example: ":8080",
			Description: "Address on which the API listens. An address that other machines can reach needs a token or " +
				"client certificates."},
		{Key: "api.http.socket", Field: &c.API.HTTP.Socket, Secrecy: Public, Example: "/run/conduit/api.sock",
			Description: "Unix socket that also serves the API, to every client that may open it, without a token."},
		{Key: "api.http.socket-mode", Field: &c.API.HTTP.SocketMode, Default: "0600", Octal: true, Secrecy: Public,
			Example:     "0660",
			Description: "Permissions of the socket, in octal as for chmod."},
		{Key: "api.http.socket-group", Field: &c.API.HTTP.SocketGroup, Secrecy: Public, Example: "adm",
			Description: "Group of the socket. Empty: the group of the agent."},
		{Key: "api.http.cors.allowed-origins", Field: &c.API.HTTP.CORS.AllowedOrigins, List: true,
			Example: "https://ui.example.com",
			Description: "Origins, separated by commas, whose pages may use the API like the pages of the agent, " +
				"such as https://ui.example.com."},
		{Key: "api.allowed-hosts", Field: &c.API.AllowedHosts, List: true, Example: "edge-7.example.com",
			Description: "Host names, separated by commas, that requests to the API may use, in addition to " +
				"localhost and IP addresses."},
		{Key: "api.allow-unauthenticated", Field: &c.API.AllowUnauthenticated, Secrecy: Public,
			Description: "Allow every client that can reach the API to do everything, whatever the address."},
		{Key: "api.auth.read-token-file", Field: &c.API.Auth.ReadTokenFile, Secrecy: SecretFile,
			Example: "/etc/conduit/read-token",
			Description: "File with the bearer token that allows reading. A name without a directory is looked up in " +
				"the credentials of systemd."},
		{Key: "api.auth.admin-token-file", Field: &c.API.Auth.AdminTokenFile, Secrecy: SecretFile,
			Example: "admin-token",
			Description: "File with the bearer token that allows everything. A name without a directory is looked up " +
				"in the credentials of systemd."},
		{Key: "api.tls.cert-file", Field: &c.API.TLS.CertFile, Secrecy: Public, Example: "/etc/conduit/cert.pem",
			Description: "Certificate of the API, PEM. With it the API speaks HTTPS."},
		{Key: "api.tls.key-file", Field: &c.API.TLS.KeyFile, Secrecy: SecretFile, Example: "/etc/conduit/key.pem",
			Description: "Private key of the certificate of the API, PEM."},
		{Key: "api.tls.client-ca-file", Field: &c.API.TLS.ClientCAFile, Secrecy: Public,
			Example:     "/etc/conduit/clients.pem",
			Description: "Certificate authorities, PEM. A client needs a certificate from one of these authorities."},
		{Key: "api.debug", Field: &c.API.Debug,
			Description: "Serve profiles under /debug/pprof/ to clients with the admin token."},
		{Key: "api.mcp", Field: &c.API.MCP, Default: "read", Values: []string{"off", "read", "write"},
			Description: "Tools for language models at /mcp, with the tokens of the API: off, read, or write to allow " +
				"the admin token to apply planned changes to pipelines of the API."},
		{Key: "api.client.ca-file", Field: &c.API.Client.CAFile, Secrecy: Public, Example: "/etc/conduit/ca.pem",
			Description: "Certificate authorities, PEM, with which commands verify the agent, in addition to the " +
				"authorities of the machine."},
		{Key: "api.client.cert-file", Field: &c.API.Client.CertFile, Secrecy: Public,
			Example:     "/etc/conduit/client.pem",
			Description: "Certificate that commands present to the agent, PEM."},
		{Key: "api.client.key-file", Field: &c.API.Client.KeyFile, Secrecy: SecretFile,
			Example:     "/etc/conduit/client-key.pem",
			Description: "Private key of the certificate that commands present, PEM."},

		{Key: "schema-registry.type", Field: &c.Schemas.Type, Default: "builtin",
			Values: []string{"builtin", "confluent"},
			Description: "Where schemas are kept: builtin keeps them in the store, confluent in a " +
				"Confluent schema registry."},
		{Key: "schema-registry.confluent.connection-string", Field: &c.Schemas.Confluent.ConnectionString,
			Secrecy: SecretPart, Example: "https://registry.example.com",
			Description: "URL of the Confluent schema registry."},
		{Key: "schema-registry.confluent.auth.type", Field: &c.Schemas.Confluent.Auth.Type, Default: "none",
			Secrecy: Public, Values: []string{"none", "basic", "bearer"},
			Description: "How to authenticate with the Confluent schema registry."},
		{Key: "schema-registry.confluent.auth.basic.username", Field: &c.Schemas.Confluent.Auth.Basic.Username,
			Secrecy: Public, Example: "conduit",
			Description: "User name for the Confluent schema registry."},
		{Key: "schema-registry.confluent.auth.basic.password", Field: &c.Schemas.Confluent.Auth.Basic.Password,
			Secrecy:     SecretValue,
			Description: "Password for the Confluent schema registry."},
		{Key: "schema-registry.confluent.auth.bearer.token", Field: &c.Schemas.Confluent.Auth.Bearer.Token,
			Secrecy:     SecretValue,
			Description: "Token for the Confluent schema registry."},

		{Key: "cluster.name", Field: &c.Cluster.Name, Example: "orders",
			Description: "Name of the cluster to which this agent belongs. With it, and a store of the cluster, every " +
				"pipeline runs on one member."},
		{Key: "cluster.member", Field: &c.Cluster.Member, Example: "edge-1",
			Description: "Name of this agent in the cluster, unique among the members. Empty: the name of the host."},
		{Key: "cluster.labels", Field: &c.Cluster.Labels, List: true, Example: "site=berlin,disk=ssd",
			Description: "Labels of this agent, name=value and separated by commas, for pipelines that require them."},
		{Key: "cluster.capacity", Field: &c.Cluster.Capacity, Default: 1, Min: 1, Example: "4",
			Description: "Pipelines that this agent runs, in proportion to the other members."},
		{Key: "cluster.ttl", Field: &c.Cluster.TTL, Default: 20 * time.Second, Example: "10s",
			Description: "How long a member may be silent before others take over its pipelines. The member itself " +
				"stops them after seven tenths of this time. With less than 17s, pipelines may stop while three NATS " +
				"servers elect a leader."},
		{Key: "cluster.keep-deleted", Field: &c.Cluster.Keep, Default: 24 * time.Hour, Example: "1h",
			Description: "How long the claim and the positions of a pipeline are kept after no " +
				"member has its file any more."},
		{Key: "cluster.nats.url", Field: &c.Cluster.NATS.URL, List: true, Secrecy: SecretPart,
			Example: "nats://n1:4222,nats://n2:4222,nats://n3:4222",
			Description: "Servers of the NATS JetStream, separated by commas, that keeps the claims and the " +
				"positions of the cluster."},
		{Key: "cluster.nats.replicas", Field: &c.Cluster.NATS.Replicas, Default: 3, Min: 1, Example: "1",
			Description: "Replicas of the stream, if this agent creates it."},
		{Key: "cluster.nats.credentials-file", Field: &c.Cluster.NATS.CredentialsFile, Secrecy: SecretFile,
			Example:     "/etc/conduit/cluster.creds",
			Description: "File with the credentials of a NATS user: a JWT and its key."},
		{Key: "cluster.nats.nkey-file", Field: &c.Cluster.NATS.NKeyFile, Secrecy: SecretFile,
			Example:     "/etc/conduit/cluster.nk",
			Description: "File with the seed of the key of a NATS user."},
		{Key: "cluster.nats.tls.ca-file", Field: &c.Cluster.NATS.TLS.CAFile, Secrecy: Public,
			Example:     "/etc/conduit/nats-ca.pem",
			Description: "Certificate authorities of the NATS servers, PEM, instead of the authorities of the machine."},
		{Key: "cluster.nats.tls.cert-file", Field: &c.Cluster.NATS.TLS.CertFile, Secrecy: Public,
			Example:     "/etc/conduit/nats.pem",
			Description: "Certificate that the agent presents to NATS, PEM."},
		{Key: "cluster.nats.tls.key-file", Field: &c.Cluster.NATS.TLS.KeyFile, Secrecy: SecretFile,
			Example:     "/etc/conduit/nats.key",
			Description: "Private key of the certificate that the agent presents to NATS, PEM."},
		{Key: "cluster.postgres.url", Field: &c.Cluster.Postgres.URL, Secrecy: SecretPart,
			Example: "postgres://conduit@db.example.com/conduit?sslmode=verify-full",
			Description: "PostgreSQL database that keeps the claims and the positions of the cluster, instead of NATS: " +
				"postgres://… or key=value pairs as for libpq."},
		{Key: "cluster.postgres.password-file", Field: &c.Cluster.Postgres.PasswordFile, Secrecy: SecretFile,
			Example: "/etc/conduit/cluster-password",
			Description: "File with the password for PostgreSQL, instead of a password in the URL. It is read for each " +
				"session. A name without a directory is looked up in the credentials of systemd."},

		{Key: "notify.webhook.url", Field: &c.Notify.Webhook.URL, Secrecy: SecretValue,
			Example: "https://alerts.example.com/conduit",
			Description: "URL to which notifications are sent with POST, as JSON: a pipeline failed, is silent or " +
				"recovered, a pipeline file has a problem."},
		{Key: "notify.webhook.secret-file", Field: &c.Notify.Webhook.SecretFile, Secrecy: SecretFile,
			Example: "/etc/conduit/webhook-secret",
			Description: "File with the secret that signs notifications, at least 24 characters. It is read for each " +
				"notification. A name without a directory is looked up in the credentials of systemd."},
		{Key: "notify.command.run", Field: &c.Notify.Command.Run, Secrecy: SecretValue,
			Example: `["/usr/local/bin/page"]`,
			Description: "Command that is run for each notification, with the JSON on its standard input: a JSON " +
				"list of the program and its arguments, without a shell. It gets the environment of connectors."},
		{Key: "notify.command.timeout", Field: &c.Notify.Command.Timeout, Default: 30 * time.Second, Secrecy: Public,
			Description: "How long the command may take before it is killed and tried again."},
		{Key: "notify.kinds", Field: &c.Notify.Kinds, List: true, Example: "degraded,failing,recovered",
			Values: []string{"degraded", "failing", "update-failed", "not-delivering", "silent", "isolation-full",
				"recovered", "file-problem", "file-accepted", "files-missing", "files-available", "cluster"},
			Description: "Notifications that are sent, separated by commas. Empty: all."},
		{Key: "notify.interval", Field: &c.Notify.Interval, Default: 15 * time.Minute,
			Description: "Time in which at most one notification of a kind is sent for each pipeline or file. A " +
				"condition that still holds at its end is reported then."},

		{Key: "telemetry.otlp.endpoint", Field: &c.Telemetry.OTLP.Endpoint, Secrecy: Public,
			Example: "http://collector.example.com:4318",
			Description: "URL of the OpenTelemetry collector to which the agent sends its own telemetry. Empty: none " +
				"is sent."},
		{Key: "telemetry.otlp.protocol", Field: &c.Telemetry.OTLP.Protocol, Default: "http",
			Values:      []string{"http", "grpc"},
			Description: "Protocol of the collector: http for OTLP over HTTP with protobuf, grpc for OTLP over gRPC."},
		{Key: "telemetry.otlp.headers", Field: &c.Telemetry.OTLP.Headers, List: true, Secrecy: SecretValue,
			Example:     "X-Scope-OrgID=edge",
			Description: "Headers of the requests, name=value and separated by commas, such as a token."},
		{Key: "telemetry.otlp.attributes", Field: &c.Telemetry.OTLP.Attributes, List: true, Secrecy: Public,
			Example: "deployment.environment.name=production",
			Description: "Attributes of the resource, name=value and separated by commas, in addition to those of " +
				"the service and the host."},
		{Key: "telemetry.otlp.ca-file", Field: &c.Telemetry.OTLP.CAFile, Secrecy: Public,
			Example: "/etc/conduit/collector-ca.pem",
			Description: "Certificate authorities of the collector, PEM, instead of the authorities of the " +
				"machine."},
		{Key: "telemetry.otlp.cert-file", Field: &c.Telemetry.OTLP.CertFile, Secrecy: Public,
			Example:     "/etc/conduit/telemetry.pem",
			Description: "Certificate that the agent presents to the collector, PEM."},
		{Key: "telemetry.otlp.key-file", Field: &c.Telemetry.OTLP.KeyFile, Secrecy: SecretFile,
			Example:     "/etc/conduit/telemetry-key.pem",
			Description: "Private key of the certificate that the agent presents to the collector, PEM."},
		{Key: "telemetry.signals", Field: &c.Telemetry.Signals, Default: "metrics,logs", List: true,
			Values:      []string{"metrics", "logs", "traces"},
			Description: "Signals that are sent, separated by commas."},
		{Key: "telemetry.traces.one-in", Field: &c.Telemetry.Traces.OneIn, Default: 100, Min: 1, Example: "1",
			Description: "One of this many batches is traced. A batch whose records carry trace contexts is " +
				"traced if one of these contexts is sampled."},
		{Key: "telemetry.metrics.interval", Field: &c.Telemetry.Metrics.Interval, Default: time.Minute,
			Description: "Time between two transmissions of metrics."},

		{Key: "shutdown.timeout", Field: &c.Shutdown.Timeout, Default: 30 * time.Second,
			Description: "How long the agent waits for in-flight records when it ends."},
	}
}

// Group is a group of settings.
type Group struct {
	Key         string // a prefix of the keys of its settings
	Description string
}

// groups describes every group.
var groups = []Group{
	{"pipelines", "Pipeline files and how changes to them are handled."},
	{"pipelines.error-recovery", "How a failed pipeline is restarted."},
	{"connectors", "Connector executables."},
	{"connectors.exec", "The built-in connector exec."},
	{"processors", "Processors that are WebAssembly modules."},
	{"processors.egress", "HTTP requests of modules."},
	{"db", "Where state is kept."},
	{"db.sqlite", "The SQLite database of the store."},
	{"db.history", "The history of deleted pipelines."},
	{"dead-letters", "Records that pipelines refused."},
	{"memory", "Memory of the agent."},
	{"log", "Level and format of the log."},
	{"api", "The REST API, its explorer and the inspector."},
	{"api.http", "Where the API listens."},
	{"api.http.cors", "Pages of other sites."},
	{"api.auth", "Who may use the API."},
	{"api.tls", "Encryption of the API."},
	{"api.client", "How commands reach an agent whose API is encrypted."},
	{"schema-registry", "Where schemas are kept."},
	{"schema-registry.confluent", "A Confluent schema registry."},
	{"schema-registry.confluent.auth", "Authentication with the registry."},
	{"schema-registry.confluent.auth.basic", "With a user name and a password."},
	{"schema-registry.confluent.auth.bearer", "With a token."},
	{"cluster", "Agents that run one set of pipelines together."},
	{"cluster.nats", "NATS JetStream as the store of the cluster."},
	{"cluster.nats.tls", "TLS for NATS."},
	{"cluster.postgres", "PostgreSQL as the store of the cluster."},
	{"notify", "Where notifications are sent, and which."},
	{"notify.webhook", "A URL as the target."},
	{"notify.command", "A command as the target."},
	{"telemetry", "Telemetry of the agent itself, for an OpenTelemetry collector."},
	{"telemetry.otlp", "The collector."},
	{"telemetry.traces", "Traces of batches."},
	{"telemetry.metrics", "Metrics for the collector."},
	{"shutdown", "How the agent ends."},
}
