package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// DefaultPath is the path of the settings if none is given.
const DefaultPath = "conduit.yaml"

// Setting describes one key.
type Setting struct {
	Key         string
	Default     any // string, int, bool or time.Duration; defines the type, too
	Description string
	Values      []string // the only values allowed, if not empty
}

// Settings returns every setting, in reading order.
func Settings() []Setting { return slices.Clone(settings()) }

// settings are all settings. Every command looks up the settings for its flags when it starts.
var settings = sync.OnceValue(func() []Setting { return append(ofPipelines(), ofServices()...) })

// Find returns the setting with this key, false if there is none.
func Find(key string) (Setting, bool) {
	i := slices.IndexFunc(settings(), func(s Setting) bool { return s.Key == key })
	if i < 0 {
		return Setting{}, false
	}
	return settings()[i], true
}

// ofPipelines returns the settings of pipelines, plugins, the store and the log.
func ofPipelines() []Setting {
	return []Setting{
		{"pipelines.path", "./pipelines", "Directory of pipeline files to keep running.", nil},
		{"pipelines.on-failed-update", "rollback", "What to do when the new version of a running pipeline cannot start: rollback runs the last good version again, hold runs none but the new one, which it retries.", []string{"rollback", "hold"}},
		{"pipelines.confirm", 5 * time.Second, "How long a new version of a pipeline has to run to count as good. One that fails sooner is handled like one that cannot start.", nil},
		{"pipelines.drain-timeout", 30 * time.Second, "How long a pipeline that is to stop may take to settle the outstanding records, before it is cut off and they are delivered again; 0s for ever.", nil},
		{"pipelines.deletion-grace", 10 * time.Second, "How long a pipeline goes on after its file is gone. The file coming back in time changes nothing.", nil},
		{"pipelines.cleanup-delay", 10 * time.Minute, "How long a withdrawn pipeline's positions are kept before its connectors clean up.", nil},
		{"pipelines.ack-timeout", 5 * time.Minute, "How long a destination may hold records without writing any, or " +
			"a source may take for an acknowledgement, before the pipeline is started again; 0s for ever. A " +
			"destination has the time of sdk.batch.delay, and what sdk.rate.* takes, in addition, and may wait for " +
			"more records to fill a batch.", nil},
		{"pipelines.allowed-paths", "", "Directories and files, separated by commas, that settings of pipelines may name: what built-in connectors and processors read or write, and ${file:...}. Empty allows all but what is the agent's own.", nil},
		{"pipelines.exit-on-degraded", false, "Exit when a pipeline fails for good.", nil},
		{"pipelines.status-files", true, "Write into the directory of db.sqlite.path what became of each pipeline file, for tools that deploy files and cannot ask the API.", nil},
		{"pipelines.error-recovery.min-delay", time.Second, "Pause before a failed pipeline is started again for the first time.", nil},
		{"pipelines.error-recovery.max-delay", 10 * time.Minute, "Longest pause between two attempts to start a failed pipeline.", nil},
		{"pipelines.error-recovery.backoff-factor", 2, "Growth of the pause from one attempt to the next.", nil},
		{"pipelines.error-recovery.max-retries", -1, "Attempts before a pipeline counts as failed for good; -1 means no end.", nil},
		{"pipelines.error-recovery.max-retries-window", 5 * time.Minute, "A failure this long ago no longer counts as an attempt.", nil},
		{"connectors.path", "./connectors", "Directory of connector executables.", nil},
		{"connectors.environment", "inherit", "What connector executables get of the agent's environment: inherit for all but what is the agent's own, or names separated by commas, of which a final * stands for any ending.", nil},
		{"connectors.writable-by-others", "warn", "What to do with connector executables that a user other than root and the agent's owns or may write, or whose directory is so: warn of them, or refuse to run them.", []string{"warn", "refuse"}},
		{"connectors.sandbox", "off", "What connector executables may do, on Linux with Landlock: off for all that the agent may; paths for no files but the system's, their own and those of connectors.sandbox-paths; strict for no network either.", []string{"off", "paths", "strict"}},
		{"connectors.sandbox-paths", "", "Directories and files, separated by commas, that sandboxed connectors may read, or with :rw behind them change, too.", nil},
		{"connectors.max-message-bytes", 16 << 20, "Bytes of a message with records that connector executables may send. One at a time is in memory beyond what the windows of sources allow.", nil},
		{"connectors.max-receive-record-size", 4 << 20, "Bytes of a message with records that connector executables are sent, for those that can be told, which are those made with Conduit's SDK since 0.14 and with the SDK of this agent.", nil},
		{"connectors.max-schemas", 1000, "Schemas that a connector may create while the agent runs; what it creates again does not count.", nil},
		{"connectors.max-schema-bytes", 16 << 20, "Bytes of schemas that a connector may create while the agent runs.", nil},
		{"connectors.schema-access", "own", "Which schemas a connector may read: own for those of its pipeline and those that belong to no connector, any for those of other pipelines, too.", []string{"own", "any"}},
		{"connectors.exec.enabled", false, "Let pipelines run commands with the built-in connector exec. Whoever may change a pipeline may run any command as the user of the agent then, outside connectors.sandbox.", nil},
		{"processors.path", "./processors", "Directory of processors that are WebAssembly modules.", nil},
		{"processors.timeout", 2 * time.Minute, "How long a processor, or its condition, may take for one record, retries included: a record that takes longer is refused, and its pipeline is started again if the processor cannot be interrupted; 0s for ever.", nil},
		{"processors.memory", 512 << 20, "Bytes of memory that an instance of a module may have.", nil},
		{"processors.egress.enabled", false, "Let modules send HTTP requests to where their setting sdk.egress.allow says.", nil},
		{"processors.egress.allow", "", "Destinations, separated by commas, that modules may ask for, such as api.example.com or https://example.com:8443; empty: any.", nil},
		{"processors.egress.secret-refs", "", "Names, separated by commas, of secrets that modules may send as authorization; the value of name is that of the variable CONDUIT_SECRET_NAME. Empty: any.", nil},
		{"processors.egress.timeout", 30 * time.Second, "Longest that an HTTP request of a module may take; 0s: what it asks for.", nil},
		{"processors.egress.max-response-bytes", 4 << 20, "Bytes that the answer to an HTTP request of a module may have; 0: what it asks for.", nil},
		{"db.sqlite.path", "conduit.db", "File that keeps state: what is declared, positions, history.", nil},
		{"db.sqlite.network-filesystem", false, "Let db.sqlite.path be on a network file system, or on one that a program serves (FUSE). It has to keep locks, shared memory and fsync, and only one machine may use it.", nil},
		{"db.commit-interval", 50 * time.Millisecond, "Least time between two commits of positions, or of states, under load.", nil},
		{"db.history.max-age", 30 * 24 * time.Hour, "How long the history of a deleted pipeline is kept. Values of secret settings are not kept in it.", nil},
		{"db.history.max-pipelines", 1000, "Deleted pipelines whose history is kept. Those that were deleted first are forgotten first.", nil},
		{"db.history.max-bytes", 16 << 20, "Bytes of history of deleted pipelines that are kept.", nil},
		{"dead-letters.max-count", 1_000_000, "Refused records that are kept for replay, in a file next to db.sqlite.path. Of what is too much the oldest of the pipeline that has most are dropped; 0: no bound.", nil},
		{"dead-letters.max-bytes", 1 << 30, "Bytes of refused records that are kept; 0: no bound.", nil},
		{"dead-letters.max-age", 30 * 24 * time.Hour, "How long refused records are kept; 0s for ever.", nil},
		{"memory.limit", 0, "Bytes of memory that the agent's own process may take; sources wait before they read more. 0: nine tenths of what the control group allows, if it has a limit; -1: no limit.", nil},
		{"log.level", "info", "Lowest level that is logged.", []string{"trace", "debug", "info", "warn", "error"}},
		{"log.format", "cli", "Form of log lines: cli for people, json for machines.", []string{"cli", "json"}},
	}
}

// ofServices returns the settings of the API, of the schema registry and of shutdown.
func ofServices() []Setting {
	return []Setting{
		{"api.enabled", true, "Serve the REST API, the inspector and the explorer.", nil},
		{"api.http.address", "127.0.0.1:8080", "Address the API listens on. One that others can reach needs a token or client certificates.", nil},
		{"api.http.socket", "", "Unix socket that serves the API, too, to every client that may open it, without a token.", nil},
		{"api.http.socket-mode", "0600", "Who may open the socket, as chmod has it.", nil},
		{"api.http.socket-group", "", "Group that the socket belongs to.", nil},
		{"api.http.cors.allowed-origins", "", "Origins, separated by commas, whose pages may use the API like its own, such as https://ui.example.com.", nil},
		{"api.allowed-hosts", "", "Names, separated by commas, under which the API may be reached, in addition to localhost and addresses.", nil},
		{"api.allow-unauthenticated", false, "Let every client that can reach the API do everything, whatever the address.", nil},
		{"api.auth.read-token-file", "", "File with the bearer token that lets read. A bare name is searched for among systemd's credentials.", nil},
		{"api.auth.admin-token-file", "", "File with the bearer token that lets do everything. A bare name is searched for among systemd's credentials.", nil},
		{"api.tls.cert-file", "", "Certificate of the API, PEM; with it the API speaks HTTPS.", nil},
		{"api.tls.key-file", "", "Private key of the certificate, PEM.", nil},
		{"api.tls.client-ca-file", "", "Certificate authorities, PEM; clients must show a certificate of one of them.", nil},
		{"api.debug", false, "Serve profiles under /debug/pprof/ to those who have the admin token.", nil},
		{"api.client.ca-file", "", "Certificate authorities, PEM, by which commands verify the agent, in addition to those of the machine.", nil},
		{"api.client.cert-file", "", "Certificate that commands show to the agent, PEM.", nil},
		{"api.client.key-file", "", "Private key of the certificate that commands show, PEM.", nil},
		{"schema-registry.type", "builtin", "Where schemas are kept: builtin keeps them in the store, confluent at a Confluent schema registry.", []string{"builtin", "confluent"}},
		{"schema-registry.confluent.connection-string", "", "URL of the Confluent schema registry.", nil},
		{"schema-registry.confluent.auth.type", "none", "How to log in at the Confluent schema registry.", []string{"none", "basic", "bearer"}},
		{"schema-registry.confluent.auth.basic.username", "", "User name at the Confluent schema registry.", nil},
		{"schema-registry.confluent.auth.basic.password", "", "Password at the Confluent schema registry.", nil},
		{"schema-registry.confluent.auth.bearer.token", "", "Token at the Confluent schema registry.", nil},
		{"cluster.name", "", "Name of the cluster that this agent is a member of; with it, and a store, every pipeline runs on one member.", nil},
		{"cluster.member", "", "Name of this agent in the cluster, which no other member may have; empty: the name of the host.", nil},
		{"cluster.labels", "", "Labels of this agent, name=value and separated by commas, for pipelines that ask for them.", nil},
		{"cluster.capacity", 1, "How many pipelines this agent takes, in proportion to the other members.", nil},
		{"cluster.ttl", 20 * time.Second, "How long a member may be silent before others take its pipelines over. It stops by itself after seven tenths of that. With less than 17s pipelines may stop while three NATS servers elect a leader.", nil},
		{"cluster.keep-deleted", 24 * time.Hour, "For how long claim and positions of a pipeline are kept after no member has a file of it any more.", nil},
		{"cluster.nats.url", "", "Servers of the NATS JetStream that keeps who runs what, and positions, separated by commas.", nil},
		{"cluster.nats.replicas", 3, "Copies of the stream, where this agent makes it.", nil},
		{"cluster.nats.credentials-file", "", "File with the credentials of a NATS user: a JWT and its key.", nil},
		{"cluster.nats.nkey-file", "", "File with the seed of a NATS user's key.", nil},
		{"cluster.nats.tls.ca-file", "", "Certificate authorities of the NATS servers, PEM, in place of those of the machine.", nil},
		{"cluster.nats.tls.cert-file", "", "Certificate that the agent shows to NATS, PEM.", nil},
		{"cluster.nats.tls.key-file", "", "Private key of that certificate, PEM.", nil},
		{"cluster.postgres.url", "", "PostgreSQL that keeps who runs what, and positions, in place of NATS: postgres://… or key=value pairs, as libpq takes them.", nil},
		{"cluster.postgres.password-file", "", "File with the password for PostgreSQL, in place of one in the URL, read for each session. A bare name is searched for among systemd's credentials.", nil},
		{"notify.webhook.url", "", "URL that notifications are sent to with POST, as JSON: a pipeline failed, is silent or recovered, a pipeline file has a problem.", nil},
		{"notify.webhook.secret-file", "", "File with the secret that signs notifications, of at least 24 characters, read for each. A bare name is searched for among systemd's credentials.", nil},
		{"notify.command.run", "", "Command that is run for each notification, with the JSON on its standard input: a JSON list, no shell sees it. It has the environment that connectors have.", nil},
		{"notify.command.timeout", 30 * time.Second, "How long the command may take before it is killed and tried again.", nil},
		{"notify.kinds", "", "Which notifications are sent, separated by commas: degraded, failing, update-failed, " +
			"not-delivering, silent, recovered, file-problem, file-accepted, files-missing, files-available, " +
			"cluster. Empty: all.", nil},
		{"notify.interval", 15 * time.Minute, "Time in which at most one notification of a kind is sent of each pipeline or file. What is still true at its end is sent then.", nil},
		{"shutdown.timeout", 30 * time.Second, "How long to wait for outstanding records when the agent ends.", nil},
	}
}

// Default returns the default of the setting with this key, nil if there is none.
func Default(key string) any {
	s, _ := Find(key)
	return s.Default
}

// Env returns the name of the environment variable of s.
func (s *Setting) Env() string { return envName(s.Key) }

func envName(key string) string {
	return "CONDUIT_" + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key))
}

// Type returns the type of a value as a word for people: string, int, bool or duration.
func (s *Setting) Type() string {
	if _, ok := s.Default.(time.Duration); ok {
		return "duration"
	}
	return fmt.Sprintf("%T", s.Default)
}

// DefaultText returns the default as a user would write it.
func (s *Setting) DefaultText() string {
	if d, ok := s.Default.(time.Duration); ok {
		return DurationText(d)
	}
	return fmt.Sprint(s.Default)
}

// DurationText is d as Go writes it, without parts that are zero: 10m, not 10m0s.
func DurationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// parse reads text from a flag or variable as a value of JSON. Text that is not a number or bool stays text, for the
// schema to refuse.
func (s *Setting) parse(text string) any {
	switch s.Default.(type) {
	case int:
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
	case bool:
		if v, err := strconv.ParseBool(text); err == nil {
			return v
		}
	}
	return text
}

// isGroup reports whether key is the first part of the key of a setting.
func isGroup(key string) bool {
	return slices.ContainsFunc(settings(), func(s Setting) bool { return strings.HasPrefix(s.Key, key+".") })
}
