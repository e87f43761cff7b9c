// Package config holds the settings of the agent: defaults, overlaid by conduit.yaml, by CONDUIT_* variables and by
// flags.
package config

import "time"

// Config holds the settings of the agent. Each field has a declaration, which describes it; see settings.go. The
// key of a declaration is also the flag and, in capitals with '_' for '.' and '-' and CONDUIT_ before it, the variable.
type Config struct {
	DB          DB
	Memory      Memory
	Log         Log
	Connectors  Connectors
	Processors  Processors
	Pipelines   Pipelines
	API         API
	Shutdown    Shutdown
	DeadLetters DeadLetters
	Schemas     SchemaRegistry
	Cluster     Cluster
	Notify      Notify
	Telemetry   Telemetry

	// File is the path of conduit.yaml, even if it does not exist.
	File string
	// Dir is the base of relative paths of pipelines, "" for the working directory. If another process checks the
	// paths that an agent may use, Dir is the directory of that agent.
	Dir string
	// Effective lists every setting with its origin, as found by Load.
	Effective []Effective
}

// Effective is a setting in effect.
type Effective struct {
	Key    string
	Value  string // as a user would write it
	Origin string // default, conduit.yaml:3:5, CONDUIT_LOG_LEVEL or --log.level
}

// DB locates the store.
type DB struct {
	SQLite         SQLite
	CommitInterval time.Duration
	History        History
}

// History bounds the history of deleted pipelines.
type History struct {
	Age       time.Duration
	Pipelines int
	Bytes     int64
}

// SQLite locates the SQLite database.
type SQLite struct {
	Path              string
	NetworkFileSystem bool
}

// DeadLetters bounds the dead-letter store.
type DeadLetters struct {
	Count int64
	Bytes int64
	Age   time.Duration
}

// Memory bounds the memory of the process of the agent.
type Memory struct {
	Limit int
}

// Log configures logging.
type Log struct {
	Level  string
	Format string
}

// Connectors locates connector executables and restricts them.
type Connectors struct {
	Path             string
	Environment      string
	WritableByOthers string
	Sandbox          string
	SandboxPaths     string
	MaxMessageBytes  int
	MaxReceiveSize   int
	MaxSchemas       int
	MaxSchemaBytes   int
	SchemaAccess     string
	Exec             Exec
}

// Exec configures whether the built-in connector exec may run commands.
type Exec struct {
	Enabled bool
}

// Processors locates WebAssembly modules, bounds the time that processors may take, and restricts modules.
type Processors struct {
	Path    string
	Timeout time.Duration
	Memory  int
	Egress  Egress
}

// Egress restricts the HTTP requests that modules may send.
type Egress struct {
	Enabled          bool
	Allow            string
	SecretRefs       string
	Timeout          time.Duration
	MaxResponseBytes int
}

// Pipelines locates pipeline files and configures how changes to them are handled.
type Pipelines struct {
	Path           string
	OnFailedUpdate string
	Confirm        time.Duration
	DrainTimeout   time.Duration
	DeletionGrace  time.Duration
	CleanupDelay   time.Duration
	AckTimeout     time.Duration
	AllowedPaths   string
	ExitOnDegraded bool
	StatusFiles    bool
	ErrorRecovery  ErrorRecovery
}

// ErrorRecovery configures restarts of a failed pipeline.
type ErrorRecovery struct {
	MinDelay         time.Duration
	MaxDelay         time.Duration
	BackoffFactor    int
	MaxRetries       int
	MaxRetriesWindow time.Duration
}

// API configures the REST API.
type API struct {
	Enabled              bool
	HTTP                 HTTP
	AllowedHosts         string
	AllowUnauthenticated bool
	Auth                 Auth
	TLS                  TLS
	Debug                bool
	MCP                  string
	Client               Client
}

// HTTP configures the addresses on which the API listens.
type HTTP struct {
	Address     string
	Socket      string
	SocketMode  string
	SocketGroup string
	CORS        CORS
}

// CORS configures which pages of other sites may use the API.
type CORS struct {
	AllowedOrigins string
}

// Auth configures who may use the API. A bare file name is searched for among the credentials of systemd.
type Auth struct {
	ReadTokenFile  string
	AdminTokenFile string
}

// TLS configures the encryption of the API.
type TLS struct {
	CertFile     string
	KeyFile      string
	ClientCAFile string
}

// Client configures how commands reach an agent whose API is encrypted.
type Client struct {
	CAFile   string
	CertFile string
	KeyFile  string
}

// Shutdown configures how the agent ends.
type Shutdown struct {
	Timeout time.Duration
}

// Cluster configures membership in a cluster, whose agents run one set of pipelines together.
type Cluster struct {
	Name     string
	Member   string
	Labels   string
	Capacity int
	TTL      time.Duration
	Keep     time.Duration
	NATS     NATS
	Postgres Postgres
}

// Postgres configures access to the PostgreSQL database of a cluster.
type Postgres struct {
	URL          string
	PasswordFile string
}

// NATS configures access to the NATS JetStream of a cluster.
type NATS struct {
	URL             string
	Replicas        int
	CredentialsFile string
	NKeyFile        string
	TLS             NATSTLS
}

// NATSTLS configures TLS for NATS.
type NATSTLS struct {
	CAFile   string
	CertFile string
	KeyFile  string
}

// Notify configures the targets and kinds of notifications.
type Notify struct {
	Webhook  Webhook
	Command  Command
	Kinds    string
	Interval time.Duration
}

// Webhook configures the URL to which notifications are sent.
type Webhook struct {
	URL        string
	SecretFile string
}

// Command configures the command that is run for each notification.
type Command struct {
	Run     string
	Timeout time.Duration
}

// Telemetry configures the telemetry that the agent sends to a collector.
type Telemetry struct {
	OTLP    OTLP
	Signals string
	Traces  Traces
	Metrics Metrics
}

// OTLP configures the collector.
type OTLP struct {
	Endpoint   string
	Protocol   string
	Headers    string
	Attributes string
	CAFile     string
	CertFile   string
	KeyFile    string
}

// Traces configures the sampling of traces.
type Traces struct {
	OneIn int
}

// Metrics configures how often metrics are sent.
type Metrics struct {
	Interval time.Duration
}

// SchemaRegistry configures where schemas are kept.
type SchemaRegistry struct {
	Type      string
	Confluent Confluent
}

// Confluent configures access to a Confluent schema registry.
type Confluent struct {
	ConnectionString string
	Auth             ConfluentAuth
}

// ConfluentAuth configures authentication with the registry.
type ConfluentAuth struct {
	Type   string
	Basic  BasicAuth
	Bearer BearerAuth
}

// BasicAuth is a user name with a password.
type BasicAuth struct {
	Username string
	Password string
}

// BearerAuth is a token.
type BearerAuth struct {
	Token string
}
