package sdk

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/spec/fingerprint"
)

// Env is what the host lends one instance of a connector or processor. It reaches the
// instance in the context of every call.
type Env struct {
	ConnectorID string          // "<pipeline>:<connector>"; empty for a processor
	ProcessorID string          // "<pipeline>:<processor>" or "<pipeline>:<connector>:<processor>"; empty for a connector
	PluginName  string          // as the host knows it, for example "builtin:generator"
	Logger      *slog.Logger    // carries the connector's fields already
	Schemas     schema.Registry // nil when the host has none
	StateDir    string          // directory of its own for what must survive a restart; empty when the host has none. It need not exist
	Clock       Clock           // nil: the time of the machine
	// AllowPath returns why settings may not name a file of the machine; nil allows every one.
	AllowPath func(path string) error
	// Defer has the host sync what a destination wrote, before it acknowledges anything that
	// Write returns for from then on: Write need not do it. It is called again after each
	// Sync. nil when the host does not offer it.
	Defer func(Syncer)
	// Budget is the limit of the memory allocated for one record, or for one message of another system, in bytes; 0:
	// DefaultBudget.
	Budget int
	// TimeLimit is how long a processor may take for one record; 0: for ever. See WithTimeLimit.
	TimeLimit time.Duration
	// Progress follows a processor; nil when it has no time limit.
	Progress *Progress
	// Buffer returns what NewBuffer does; nil when the host does not bound memory.
	Buffer func() Buffer

	format Format // chosen by the settings; set by a standard destination
}

// Syncer is what a destination writes to, to be synced by the host.
type Syncer interface {
	// Sync makes durable all that was written before it was called. It is called
	// concurrently with all methods of the destination, and after Teardown.
	Sync() error
	// Device distinguishes disks: one that is slow is waited for alone.
	Device() uint64
}

type envKey struct{}

// DefaultBudget is the result of Budget unless the host sets another one.
const DefaultBudget = 256 << 20

// Budget returns how many bytes of memory may be allocated for one record, or for one message of another system, for
// example by decoding or decompressing it.
func Budget(ctx context.Context) int {
	if n := EnvFrom(ctx).Budget; n > 0 {
		return n
	}
	return DefaultBudget
}

// WithEnv returns a context that carries env.
func WithEnv(ctx context.Context, env *Env) context.Context {
	return context.WithValue(ctx, envKey{}, env)
}

// EnvFrom returns the Env that ctx carries, or one with a logger that discards.
func EnvFrom(ctx context.Context) *Env {
	if env, ok := ctx.Value(envKey{}).(*Env); ok {
		return env
	}
	return &Env{Logger: slog.New(slog.DiscardHandler)}
}

// CheckPath returns nil if the setting may name the file at path, a SettingError otherwise. A
// connector or processor that runs in the agent calls it before it opens a file that a setting
// names. An empty path names none.
func CheckPath(ctx context.Context, setting, path string) error {
	allow := EnvFrom(ctx).AllowPath
	if allow == nil || path == "" {
		return nil
	}
	if err := allow(path); err != nil {
		return SettingError{setting, err.Error()}
	}
	return nil
}

// CheckOpen returns nil if the setting may name the file that is open as f. A connector that runs
// in the agent calls it after it has opened a file: since CheckPath, a link may have been put in
// the way.
func CheckOpen(ctx context.Context, setting string, f *os.File) error {
	if EnvFrom(ctx).AllowPath == nil {
		return nil
	}
	path, err := fingerprint.PathOf(f)
	if err != nil {
		return fmt.Errorf("cannot find out what %s leads to: %w", f.Name(), err)
	}
	return CheckPath(ctx, setting, path)
}

// CheckCreate returns nil if the setting may name what is to be created as name in the open
// directory.
func CheckCreate(ctx context.Context, setting string, dir *os.File, name string) error {
	if EnvFrom(ctx).AllowPath == nil {
		return nil
	}
	path, err := fingerprint.PathOf(dir)
	if err != nil {
		return fmt.Errorf("cannot find out what %s leads to: %w", dir.Name(), err)
	}
	return CheckPath(ctx, setting, filepath.Join(path, name))
}

// Logger returns the connector's logger.
func Logger(ctx context.Context) *slog.Logger { return EnvFrom(ctx).Logger }
