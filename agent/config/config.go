// Package config holds the agent's own settings: defaults, overlaid by conduit.yaml,
// by CONDUIT_* variables and by flags.
package config

import "time"

// Config is the agent's settings. The koanf tags are the keys in conduit.yaml, in
// flags and, in capitals with '_' for '.' and '-' and CONDUIT_ before it, in the environment.
type Config struct {
	DB         DB         `koanf:"db"`
	Log        Log        `koanf:"log"`
	Connectors Connectors `koanf:"connectors"`
	Processors Processors `koanf:"processors"`
	Pipelines  Pipelines  `koanf:"pipelines"`
	Shutdown   Shutdown   `koanf:"shutdown"`
}

// DB says where state is kept.
type DB struct {
	SQLite struct {
		Path string `koanf:"path"` // default conduit.db
	} `koanf:"sqlite"`
	CommitInterval time.Duration `koanf:"commit-interval"` // least time between two commits of positions under load; default 50ms
}

// Log says what is logged and how.
type Log struct {
	Level  string `koanf:"level"`  // trace, debug, info, warn, error; default info
	Format string `koanf:"format"` // cli, json; default cli
}

// Connectors says where connector executables are.
type Connectors struct {
	Path string `koanf:"path"` // default ./connectors
}

// Processors says where processor executables are.
type Processors struct {
	Path string `koanf:"path"` // default ./processors
}

// Pipelines says where pipeline files are and how changes of them are handled.
type Pipelines struct {
	Path           string        `koanf:"path"`             // default ./pipelines
	OnFailedUpdate string        `koanf:"on-failed-update"` // rollback, hold; default rollback
	DeletionGrace  time.Duration `koanf:"deletion-grace"`   // default 10s
	CleanupDelay   time.Duration `koanf:"cleanup-delay"`    // default 10m
	ExitOnDegraded bool          `koanf:"exit-on-degraded"` // default false
	ErrorRecovery  ErrorRecovery `koanf:"error-recovery"`
}

// ErrorRecovery says how a pipeline that failed is started again.
type ErrorRecovery struct {
	MinDelay         time.Duration `koanf:"min-delay"`          // default 1s
	MaxDelay         time.Duration `koanf:"max-delay"`          // default 10m
	BackoffFactor    int           `koanf:"backoff-factor"`     // default 2
	MaxRetries       int           `koanf:"max-retries"`        // default -1, no end
	MaxRetriesWindow time.Duration `koanf:"max-retries-window"` // default 5m: a failure this long past no longer counts
}

// Shutdown says how the agent ends.
type Shutdown struct {
	Timeout time.Duration `koanf:"timeout"` // default 30s
}
