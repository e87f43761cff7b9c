// Package config holds the settings of the agent: defaults, overlaid by conduit.yaml, by CONDUIT_* variables and by
// flags.
package config

import "time"

// Config holds the settings of the agent. The koanf tags are the keys in conduit.yaml, in flags and, in capitals with
// '_' for '.' and '-' and CONDUIT_ before it, in the environment. Settings describes each key.
type Config struct {
	DB          DB             `koanf:"db"`
	Memory      Memory         `koanf:"memory"`
	Log         Log            `koanf:"log"`
	Connectors  Connectors     `koanf:"connectors"`
	Processors  Processors     `koanf:"processors"`
	Pipelines   Pipelines      `koanf:"pipelines"`
	API         API            `koanf:"api"`
	Shutdown    Shutdown       `koanf:"shutdown"`
	DeadLetters DeadLetters    `koanf:"dead-letters"`
	Schemas     SchemaRegistry `koanf:"schema-registry"`
	Cluster     Cluster        `koanf:"cluster"`
	Notify      Notify         `koanf:"notify"`

	// File is the path of conduit.yaml, even if it does not exist.
	File string `koanf:"-"`
	// Dir is the base of relative paths of pipelines, "" for the working directory. If another process checks the
	// paths that an agent may use, Dir is the directory of that agent.
	Dir string `koanf:"-"`
	// Effective lists every setting with its origin, as found by Load.
	Effective []Effective `koanf:"-"`
}

// Effective is a setting in effect.
type Effective struct {
	Key    string
	Value  string // as a user would write it
	Origin string // default, conduit.yaml:3:5, CONDUIT_LOG_LEVEL or --log.level
}

// DB locates the store.
type DB struct {
	SQLite         SQLite        `koanf:"sqlite"`
	CommitInterval time.Duration `koanf:"commit-interval"`
	History        History       `koanf:"history"`
}

// History bounds the history of deleted pipelines.
type History struct {
	MaxAge       time.Duration `koanf:"max-age"`
	MaxPipelines int           `koanf:"max-pipelines"`
	MaxBytes     int           `koanf:"max-bytes"`
}

// SQLite locates the SQLite database.
type SQLite struct {
	Path              string `koanf:"path"`
	NetworkFileSystem bool   `koanf:"network-filesystem"`
}

// DeadLetters bounds the dead-letter store.
type DeadLetters struct {
	MaxCount int           `koanf:"max-count"` // 0: no bound
	MaxBytes int           `koanf:"max-bytes"` // 0: no bound
	MaxAge   time.Duration `koanf:"max-age"`   // 0: no bound
}

// Memory bounds the memory of the process of the agent.
type Memory struct {
	Limit int `koanf:"limit"` // bytes; 0: the limit of the control group, less a tenth; -1: none
}

// Log configures logging.
type Log struct {
	Level  string `koanf:"level"`  // trace, debug, info, warn, error
	Format string `koanf:"format"` // cli, json
}

// Connectors locates connector executables and restricts them.
type Connectors struct {
	Path             string `koanf:"path"`
	Environment      string `koanf:"environment"`             // inherit, or comma-separated names
	WritableByOthers string `koanf:"writable-by-others"`      // warn, refuse
	Sandbox          string `koanf:"sandbox"`                 // off, paths, strict
	SandboxPaths     string `koanf:"sandbox-paths"`           // comma-separated
	MaxMessageBytes  int    `koanf:"max-message-bytes"`       // bound of messages that executables send
	MaxReceiveSize   int    `koanf:"max-receive-record-size"` // bound of messages that executables receive
	MaxSchemas       int    `koanf:"max-schemas"`             // for each connector
	MaxSchemaBytes   int    `koanf:"max-schema-bytes"`        // for each connector
	SchemaAccess     string `koanf:"schema-access"`           // own, any
	Exec             Exec   `koanf:"exec"`
}

// Exec configures whether the built-in connector exec may run commands.
type Exec struct {
	Enabled bool `koanf:"enabled"`
}

// Processors locates WebAssembly modules, bounds the time that processors may take, and restricts modules.
type Processors struct {
	Path    string        `koanf:"path"`
	Timeout time.Duration `koanf:"timeout"` // default 30s; 0 for no limit
	Memory  int           `koanf:"memory"`  // bytes
	Egress  Egress        `koanf:"egress"`
}

// Egress restricts the HTTP requests that modules may send.
type Egress struct {
	Enabled          bool          `koanf:"enabled"`
	Allow            string        `koanf:"allow"`       // comma-separated
	SecretRefs       string        `koanf:"secret-refs"` // comma-separated
	Timeout          time.Duration `koanf:"timeout"`
	MaxResponseBytes int           `koanf:"max-response-bytes"`
}

// Pipelines locates pipeline files and configures how changes to them are handled.
type Pipelines struct {
	Path           string        `koanf:"path"`
	OnFailedUpdate string        `koanf:"on-failed-update"` // rollback, hold
	Confirm        time.Duration `koanf:"confirm"`
	DrainTimeout   time.Duration `koanf:"drain-timeout"` // 0 for no limit
	DeletionGrace  time.Duration `koanf:"deletion-grace"`
	CleanupDelay   time.Duration `koanf:"cleanup-delay"`
	AckTimeout     time.Duration `koanf:"ack-timeout"` // default 5m; 0 for no limit
	// comma-separated; empty: all paths except those of the agent itself
	AllowedPaths   string        `koanf:"allowed-paths"`
	ExitOnDegraded bool          `koanf:"exit-on-degraded"`
	StatusFiles    bool          `koanf:"status-files"` // default true
	ErrorRecovery  ErrorRecovery `koanf:"error-recovery"`
}

// ErrorRecovery configures restarts of a failed pipeline.
type ErrorRecovery struct {
	MinDelay         time.Duration `koanf:"min-delay"`
	MaxDelay         time.Duration `koanf:"max-delay"`
	BackoffFactor    int           `koanf:"backoff-factor"`
	MaxRetries       int           `koanf:"max-retries"` // -1 for no limit
	MaxRetriesWindow time.Duration `koanf:"max-retries-window"`
}

// API configures the REST API.
type API struct {
	Enabled bool `koanf:"enabled"` // default true
	HTTP    HTTP `koanf:"http"`

	AllowedHosts string `koanf:"allowed-hosts"` // comma-separated names, in addition to localhost and addresses
	// default false: an address that others can reach needs a token or client certificates
	AllowUnauthenticated bool   `koanf:"allow-unauthenticated"`
	Auth                 Auth   `koanf:"auth"`
	TLS                  TLS    `koanf:"tls"`
	Debug                bool   `koanf:"debug"` // default false: profiles are served to the admin token
	Client               Client `koanf:"client"`
}

// HTTP configures the addresses on which the API listens.
type HTTP struct {
	Address     string `koanf:"address"`      // default 127.0.0.1:8080
	Socket      string `koanf:"socket"`       // also a Unix socket, for every client that may open it; empty: none
	SocketMode  string `koanf:"socket-mode"`  // default 0600, in octal
	SocketGroup string `koanf:"socket-group"` // empty: the group of the agent
	CORS        CORS   `koanf:"cors"`
}

// CORS configures which pages of other sites may use the API.
type CORS struct {
	AllowedOrigins string `koanf:"allowed-origins"` // comma-separated, optionally in brackets
}

// Auth configures who may use the API. A bare file name is searched for among the credentials of systemd.
type Auth struct {
	ReadTokenFile  string `koanf:"read-token-file"`
	AdminTokenFile string `koanf:"admin-token-file"`
}

// TLS configures the encryption of the API.
type TLS struct {
	CertFile     string `koanf:"cert-file"`
	KeyFile      string `koanf:"key-file"`
	ClientCAFile string `koanf:"client-ca-file"` // clients must present a certificate from one of these authorities
}

// Client configures how commands reach an agent whose API is encrypted.
type Client struct {
	CAFile   string `koanf:"ca-file"`
	CertFile string `koanf:"cert-file"`
	KeyFile  string `koanf:"key-file"`
}

// Shutdown configures how the agent ends.
type Shutdown struct {
	Timeout time.Duration `koanf:"timeout"`
}

// Cluster configures membership in a cluster, whose agents run one set of pipelines together.
type Cluster struct {
	Name     string        `koanf:"name"`     // "": no cluster
	Member   string        `koanf:"member"`   // "" for the host name
	Labels   string        `koanf:"labels"`   // comma-separated name=value
	Capacity int           `koanf:"capacity"` // relative to other members
	TTL      time.Duration `koanf:"ttl"`
	Keep     time.Duration `koanf:"keep-deleted"`
	NATS     NATS          `koanf:"nats"`
	Postgres Postgres      `koanf:"postgres"`
}

// Postgres configures access to the PostgreSQL database of a cluster.
type Postgres struct {
	URL          string `koanf:"url"`
	PasswordFile string `koanf:"password-file"`
}

// NATS configures access to the NATS JetStream of a cluster.
type NATS struct {
	URL             string  `koanf:"url"` // comma-separated
	Replicas        int     `koanf:"replicas"`
	CredentialsFile string  `koanf:"credentials-file"`
	NKeyFile        string  `koanf:"nkey-file"`
	TLS             NATSTLS `koanf:"tls"`
}

// NATSTLS configures TLS for NATS.
type NATSTLS struct {
	CAFile   string `koanf:"ca-file"`
	CertFile string `koanf:"cert-file"`
	KeyFile  string `koanf:"key-file"`
}

// Notify configures the targets and kinds of notifications.
type Notify struct {
	Webhook  Webhook       `koanf:"webhook"`
	Command  Command       `koanf:"command"`
	Kinds    string        `koanf:"kinds"` // comma-separated; empty: all
	Interval time.Duration `koanf:"interval"`
}

// Webhook configures the URL to which notifications are sent.
type Webhook struct {
	URL        string `koanf:"url"`
	SecretFile string `koanf:"secret-file"`
}

// Command configures the command that is run for each notification.
type Command struct {
	Run     string        `koanf:"run"` // a JSON list
	Timeout time.Duration `koanf:"timeout"`
}

// SchemaRegistry configures where schemas are kept.
type SchemaRegistry struct {
	Type      string    `koanf:"type"` // builtin, confluent
	Confluent Confluent `koanf:"confluent"`
}

// Confluent configures access to a Confluent schema registry.
type Confluent struct {
	ConnectionString string        `koanf:"connection-string"`
	Auth             ConfluentAuth `koanf:"auth"`
}

// ConfluentAuth configures authentication with the registry.
type ConfluentAuth struct {
	Type   string     `koanf:"type"` // none, basic, bearer
	Basic  BasicAuth  `koanf:"basic"`
	Bearer BearerAuth `koanf:"bearer"`
}

// BasicAuth is a user name with a password.
type BasicAuth struct {
	Username string `koanf:"username"`
	Password string `koanf:"password"`
}

// BearerAuth is a token.
type BearerAuth struct {
	Token string `koanf:"token"`
}
