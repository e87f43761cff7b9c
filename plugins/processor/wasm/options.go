package wasm

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor/wasm/egress"
	"github.com/conduit-agent/conduit/plugins/schema"
)

// Problem says why a file is not used.
type Problem struct {
	Path   string
	Reason string
}

// Change says what became, on disk, of the module of a processor that runs.
type Change struct {
	ProcessorID string
	Reason      string    // PluginReplaced, PluginBroken or PluginGone
	Message     string    // for people
	Started     time.Time // when the processor was
}

// Options say where modules are and what they may do.
type Options struct {
	Dir      string         // need not exist yet; its subdirectories and hidden files do not count
	CacheDir string         // for compiled code and descriptions of modules; empty: they are made at every start
	Memory   int64          // bytes of memory that one instance may have; 0: 512 MiB
	Egress   egress.Policy  // what modules may reach over HTTP
	Bounds   *schema.Bounds // of the schemas that processors create; nil: none
	Log      *slog.Logger   // nil discards
	Changed  func()         // when set, called after modules came, went or changed; must not block

	// Watch calls scan when something may have changed at the paths that scan returned last, and
	// after again when that is not 0. It returns when ctx ends. nil: scan is called at intervals.
	Watch          func(ctx context.Context, wake <-chan struct{}, scan func() (paths []string, again time.Duration)) error
	Interval       time.Duration // between two scans of Dir without Watch; 0: a second
	SpecifyTimeout time.Duration // for a compiled module to say what it is; 0: 10 s
}

const (
	defaultInterval       = time.Second
	defaultSpecifyTimeout = 10 * time.Second
	settling              = 300 * time.Millisecond // how long a file that was just written may be in the making
)

// watch calls scan until ctx ends, by Watch or at intervals.
func (o *Options) watch(ctx context.Context, scan func(context.Context) (complete bool)) error {
	once := func() (paths []string, again time.Duration) {
		if !scan(ctx) {
			again = settling
		}
		return []string{o.Dir}, again
	}
	if o.Watch != nil {
		return o.Watch(ctx, nil, once)
	}
	for {
		pause := cmp.Or(o.Interval, defaultInterval)
		if _, again := once(); again > 0 {
			pause = min(pause, again)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}
