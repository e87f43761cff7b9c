// Package config holds the agent's own settings: defaults, overlaid by conduit.yaml,
// by CONDUIT_* variables and by flags.
package config

import "time"

// Config is the agent's settings. The koanf tags are the keys in conduit.yaml, in
// flags and, in capitals with '_' for '.' and '-' and CONDUIT_ before it, in the
// environment. Settings says what each key means.
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

	// File is where conduit.yaml is, or would be.
	File string `koanf:"-"`
	// Dir is where relative paths of pipelines start, "" for the working directory. It is that of the agent these settings
	// are of, where another process judges what that one may do.
	Dir string `koanf:"-"`
	// Effective lists every setting with the place it was set, as Load found it.
	Effective []Effective `koanf:"-"`
}

// Effective is a setting in effect.
type Effective struct {
	Key    string
	Value  string // as one would write it
	Origin string // default, conduit.yaml:3:5, CONDUIT_LOG_LEVEL or --log.level
}

// DB says where state is kept.
type DB struct {
	SQLite         SQLite        `koanf:"sqlite"`
	CommitInterval time.Duration `koanf:"commit-interval"`
	History        History       `koanf:"history"`
}

// History bounds what is kept of the history of deleted pipelines.
type History struct {
	MaxAge       time.Duration `koanf:"max-age"`
	MaxPipelines int           `koanf:"max-pipelines"`
	MaxBytes     int           `koanf:"max-bytes"`
}

// SQLite says where the SQLite database is.
type SQLite struct {
	Path              string `koanf:"path"`
	NetworkFileSystem bool   `koanf:"network-filesystem"`
}

// DeadLetters bounds the dead-letter store.
type DeadLetters struct {
	MaxCount int           `koanf:"max-count"` // 0: no bound
	MaxBytes int           `koanf:"max-bytes"` // 0: no bound
	MaxAge   time.Duration `koanf:"max-age"`   // 0 for ever
}

// Memory bounds the memory of the agent's own process.
type Memory struct {
	Limit int `koanf:"limit"` // bytes; 0: that of the control group, less a tenth; -1: none
}

// Log says what is logged and how.
type Log struct {
	Level  string `koanf:"level"`  // trace, debug, info, warn, error
	Format string `koanf:"format"` // cli, json
}

// Connectors says where connector executables are, and what they may do.
type Connectors struct {
	Path             string `koanf:"path"`
	Environment      string `koanf:"environment"`             // inherit, or comma-separated names
	WritableByOthers string `koanf:"writable-by-others"`      // warn, refuse
	Sandbox          string `koanf:"sandbox"`                 // off, paths, strict
	SandboxPaths     string `koanf:"sandbox-paths"`           // comma-separated
	MaxMessageBytes  int    `koanf:"max-message-bytes"`       // that executables send
	MaxReceiveSize   int    `koanf:"max-receive-record-size"` // that executables are sent
	MaxSchemas       int    `koanf:"max-schemas"`             // of one connector
	MaxSchemaBytes   int    `koanf:"max-schema-bytes"`        // of one connector
	SchemaAccess     string `koanf:"schema-access"`           // own, any
	Exec             Exec   `koanf:"exec"`
}

// Exec says whether the built-in connector exec may run commands.
type Exec struct {
	Enabled bool `koanf:"enabled"`
}

// Processors says where WebAssembly modules are, how long processors may take, and what
// modules may do.
type Processors struct {
	Path    string        `koanf:"path"`
	Timeout time.Duration `koanf:"timeout"` // default 30s; 0 for ever
	Memory  int           `koanf:"memory"`  // bytes
	Egress  Egress        `koanf:"egress"`
}

// Egress says which HTTP requests modules may send.
type Egress struct {
	Enabled          bool          `koanf:"enabled"`
	Allow            string        `koanf:"allow"`       // comma-separated
	SecretRefs       string        `koanf:"secret-refs"` // comma-separated
	Timeout          time.Duration `koanf:"timeout"`
	MaxResponseBytes int           `koanf:"max-response-bytes"`
}

// Pipelines says where pipeline files are and how changes of them are handled.
type Pipelines struct {
	Path           string        `koanf:"path"`
	OnFailedUpdate string        `koanf:"on-failed-update"` // rollback, hold
	Confirm        time.Duration `koanf:"confirm"`
	DrainTimeout   time.Duration `koanf:"drain-timeout"` // 0 for ever
	DeletionGrace  time.Duration `koanf:"deletion-grace"`
	CleanupDelay   time.Duration `koanf:"cleanup-delay"`
	AckTimeout     time.Duration `koanf:"ack-timeout"`   // default 5m; 0 for ever
	AllowedPaths   string        `koanf:"allowed-paths"` // comma-separated; empty: all but what is the agent's own
	ExitOnDegraded bool          `koanf:"exit-on-degraded"`
	StatusFiles    bool          `koanf:"status-files"` // default true
	ErrorRecovery  ErrorRecovery `koanf:"error-recovery"`
}

// ErrorRecovery says how a pipeline that failed is started again.
type ErrorRecovery struct {
	MinDelay         time.Duration `koanf:"min-delay"`
	MaxDelay         time.Duration `koanf:"max-delay"`
	BackoffFactor    int           `koanf:"backoff-factor"`
	MaxRetries       int           `koanf:"max-retries"` // -1 is no end
	MaxRetriesWindow time.Duration `koanf:"max-retries-window"`
}

// API says where and for whom the REST API is served.
type API struct {
	Enabled bool `koanf:"enabled"` // default true
	HTTP    HTTP `koanf:"http"`

	AllowedHosts         string `koanf:"allowed-hosts"`         // comma-separated names, in addition to localhost and addresses
	AllowUnauthenticated bool   `koanf:"allow-unauthenticated"` // default false: an address others can reach needs a token or client certificates
	Auth                 Auth   `koanf:"auth"`
	TLS                  TLS    `koanf:"tls"`
	Debug                bool   `koanf:"debug"` // default false: profiles are served to the admin token
	Client               Client `koanf:"client"`
}

// HTTP says where the API listens.
type HTTP struct {
	Address     string `koanf:"address"`      // default 127.0.0.1:8080
	Socket      string `koanf:"socket"`       // a Unix socket, too, for every client that may open it; empty: none
	SocketMode  string `koanf:"socket-mode"`  // default 0600, in octal
	SocketGroup string `koanf:"socket-group"` // empty: that of the agent
	CORS        CORS   `koanf:"cors"`
}

// CORS says which pages of other sites may use the API.
type CORS struct {
	AllowedOrigins string `koanf:"allowed-origins"` // comma-separated; around them may be brackets
}

// Auth says who may use the API. A bare file name is searched for among systemd's credentials.
type Auth struct {
	ReadTokenFile  string `koanf:"read-token-file"`
	AdminTokenFile string `koanf:"admin-token-file"`
}

// TLS says how the API is encrypted.
type TLS struct {
	CertFile     string `koanf:"cert-file"`
	KeyFile      string `koanf:"key-file"`
	ClientCAFile string `koanf:"client-ca-file"` // clients must show a certificate of one of these authorities
}

// Client says how commands reach an agent whose API is encrypted.
type Client struct {
	CAFile   string `koanf:"ca-file"`
	CertFile string `koanf:"cert-file"`
	KeyFile  string `koanf:"key-file"`
}

// Shutdown says how the agent ends.
type Shutdown struct {
	Timeout time.Duration `koanf:"timeout"`
}

// Cluster says which agents run one set of pipelines together.
type Cluster struct {
	Name     string        `koanf:"name"`     // "": this agent is alone
	Member   string        `koanf:"member"`   // "" for the name of the host
	Labels   string        `koanf:"labels"`   // comma-separated name=value
	Capacity int           `koanf:"capacity"` // relative to other members
	TTL      time.Duration `koanf:"ttl"`
	Keep     time.Duration `koanf:"keep-deleted"`
	NATS     NATS          `koanf:"nats"`
	Postgres Postgres      `koanf:"postgres"`
}

// Postgres says how to reach the PostgreSQL of a cluster.
type Postgres struct {
	URL          string `koanf:"url"`
	PasswordFile string `koanf:"password-file"`
}

// NATS says how to reach the NATS JetStream of a cluster.
type NATS struct {
	URL             string  `koanf:"url"` // comma-separated
	Replicas        int     `koanf:"replicas"`
	CredentialsFile string  `koanf:"credentials-file"`
	NKeyFile        string  `koanf:"nkey-file"`
	TLS             NATSTLS `koanf:"tls"`
}

// NATSTLS says how to speak TLS with NATS.
type NATSTLS struct {
	CAFile   string `koanf:"ca-file"`
	CertFile string `koanf:"cert-file"`
	KeyFile  string `koanf:"key-file"`
}

// Notify says where notifications go, and which.
type Notify struct {
	Webhook  Webhook       `koanf:"webhook"`
	Command  Command       `koanf:"command"`
	Kinds    string        `koanf:"kinds"` // comma-separated; empty: all
	Interval time.Duration `koanf:"interval"`
}

// Webhook says which URL notifications are sent to.
type Webhook struct {
	URL        string `koanf:"url"`
	SecretFile string `koanf:"secret-file"`
}

// Command says which command is run for each notification.
type Command struct {
	Run     string        `koanf:"run"` // a JSON list
	Timeout time.Duration `koanf:"timeout"`
}

// SchemaRegistry says where schemas are kept.
type SchemaRegistry struct {
	Type      string    `koanf:"type"` // builtin, confluent
	Confluent Confluent `koanf:"confluent"`
}

// Confluent says how to reach a Confluent schema registry.
type Confluent struct {
	ConnectionString string        `koanf:"connection-string"`
	Auth             ConfluentAuth `koanf:"auth"`
}

// ConfluentAuth says how to log in there.
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
