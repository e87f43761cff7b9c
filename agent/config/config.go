// Package config holds the agent's own settings: defaults, overlaid by conduit.yaml,
// by CONDUIT_* variables and by flags.
package config

import "time"

// Config is the agent's settings. The koanf tags are the keys in conduit.yaml, in
// flags and, in capitals with '_' for '.' and '-' and CONDUIT_ before it, in the
// environment. Settings says what each key means.
type Config struct {
	API        API        `koanf:"api"`
	DB         DB         `koanf:"db"`
	Log        Log        `koanf:"log"`
	Connectors Connectors `koanf:"connectors"`
	Processors Processors `koanf:"processors"`
	Pipelines  Pipelines  `koanf:"pipelines"`
	Shutdown   Shutdown   `koanf:"shutdown"`
}

// API says how the REST API is served.
type API struct {
	HTTP HTTP `koanf:"http"`
}

// HTTP says where the REST API is.
type HTTP struct {
	Address string `koanf:"address"`
}

// DB says where state is kept.
type DB struct {
	SQLite         SQLite        `koanf:"sqlite"`
	CommitInterval time.Duration `koanf:"commit-interval"`
}

// SQLite says where the SQLite database is.
type SQLite struct {
	Path string `koanf:"path"`
}

// Log says what is logged and how.
type Log struct {
	Level  string `koanf:"level"`  // trace, debug, info, warn, error
	Format string `koanf:"format"` // cli, json
}

// Connectors says where connector executables are.
type Connectors struct {
	Path string `koanf:"path"`
}

// Processors says where processor executables are.
type Processors struct {
	Path string `koanf:"path"`
}

// Pipelines says where pipeline files are and how changes of them are handled.
type Pipelines struct {
	Path           string        `koanf:"path"`
	OnFailedUpdate string        `koanf:"on-failed-update"` // rollback, hold
	DeletionGrace  time.Duration `koanf:"deletion-grace"`
	CleanupDelay   time.Duration `koanf:"cleanup-delay"`
	ExitOnDegraded bool          `koanf:"exit-on-degraded"`
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

// Shutdown says how the agent ends.
type Shutdown struct {
	Timeout time.Duration `koanf:"timeout"`
}
