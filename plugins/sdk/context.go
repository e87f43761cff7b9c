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

// Env is the environment that the host provides to one instance of a connector or processor. It is in the context of
// every call.
type Env struct {
	ConnectorID string          // "<pipeline>:<connector>"; empty for a processor
	ProcessorID string          // "<pipeline>:<processor>" or "<pipeline>:<connector>:<processor>"; empty: connector
	PluginName  string          // name used by the host, for example "builtin:generator"
	Logger      *slog.Logger    // has the connector's fields already
	Schemas     schema.Registry // nil: the host has none
	StateDir    string          // private directory for durable data, may not exist yet; empty: none
	Clock       Clock           // nil: the time of the machine
	// AllowPath returns an error if settings may not name this file of the machine. nil allows every file.
	AllowPath func(path string) error
	// Defer registers a Syncer. The host calls Sync before it acknowledges any record written from then on, so Write
	// need not sync. Defer is called again after each Sync. nil if the host does not offer it.
	Defer func(Syncer)
	// Budget is the limit of the memory allocated for one record, or for one message of another system, in bytes; 0:
	// DefaultBudget.
	Budget int
	// TimeLimit is the maximum time of a processor for one record; 0: no limit. See WithTimeLimit.
	TimeLimit time.Duration
	// Progress tracks a processor; nil if there is no time limit.
	Progress *Progress
	// Replay reports that a destination replays dead letters. The destination of the running pipeline may write at the
	// same time, with the same ConnectorID: what only one client may hold, such as a session, needs another name.
	Replay bool
	// Buffer implements NewBuffer; nil if the host does not limit memory.
	Buffer func() Buffer

	format Format // format in the settings; set by a standard destination
	header []byte // see RecordHeader
}

// Syncer is the target of a destination's writes, which the host syncs.
type Syncer interface {
	// Sync makes all data durable that was written before the call. It is called concurrently with all methods of the
	// destination, and after Teardown.
	Sync() error
	// Device identifies the disk. A slow disk does not delay other disks.
	Device() uint64
}

// FileSyncer is a Syncer of a file. A host that has many files of one disk to sync may sync all of them at once instead
// of calling Sync of each.
type FileSyncer interface {
	Syncer
	// BeginSync returns the file if it has data to sync. Data that is written later is not part of this sync. The file
	// stays open until EndSync, which must follow. Without data BeginSync returns no file, and the error that Sync
	// would return; EndSync must not follow.
	BeginSync() (UnsyncedFile, error)
	// EndSync reports the outcome of the sync.
	EndSync(err error)
}

// UnsyncedFile is a file with data to sync.
type UnsyncedFile struct {
	File *os.File
	Dir  string // directory to sync too, since the file is new in it; empty for none
}

type envKey struct{}

// DefaultBudget is the default of Budget, in bytes.
const DefaultBudget = 256 << 20

// Budget returns the limit in bytes of the memory allocated for one record, or for one message of another system, for
// example while decoding or decompressing it.
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

// CheckOpen returns nil if the setting may name the file opened as f. A connector that runs in the agent calls it after
// it has opened a file, because a link may have replaced the file since CheckPath.
func CheckOpen(ctx context.Context, setting string, f *os.File) error {
	if EnvFrom(ctx).AllowPath == nil {
		return nil
	}
	path, err := fingerprint.PathOf(f)
	if err != nil {
		return fmt.Errorf("cannot resolve the links of %s: %w", f.Name(), err)
	}
	return CheckPath(ctx, setting, path)
}

// CheckCreate returns nil if the setting may name a new file called name in the open directory.
func CheckCreate(ctx context.Context, setting string, dir *os.File, name string) error {
	if EnvFrom(ctx).AllowPath == nil {
		return nil
	}
	path, err := fingerprint.PathOf(dir)
	if err != nil {
		return fmt.Errorf("cannot resolve the links of %s: %w", dir.Name(), err)
	}
	return CheckPath(ctx, setting, filepath.Join(path, name))
}

// Logger returns the connector's logger.
func Logger(ctx context.Context) *slog.Logger { return EnvFrom(ctx).Logger }
