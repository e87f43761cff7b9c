package wasm

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/conduit-agent/conduit/plugins/schema"
)

// Problem describes why a file is not used.
type Problem struct {
	Path   string
	Reason string
}

// Change describes how the file of a running processor's module differs from the running version.
type Change struct {
	ProcessorID string
	Reason      string    // PluginReplaced, PluginBroken or PluginGone
	Message     string    // for people
	Now         string    // file for the next start, if it is PluginReplaced; for people
	Started     time.Time // when the processor started
}

// Options configure the directory of modules and their limits.
type Options struct {
	Dir      string         // need not exist yet; subdirectories and hidden files are ignored
	CacheDir string         // for compiled code and specifications of modules; empty: no cache
	Memory   int64          // maximum bytes of memory for each instance; 0: 512 MiB
	Egress   EgressPolicy   // limits the HTTP access of modules
	Bounds   *schema.Bounds // bounds of the schemas that processors create; nil: none
	Log      *slog.Logger   // nil discards
	Changed  func()         // if set, called after modules appeared, disappeared or changed; must not block

	// Watch calls scan when the paths that the last scan returned may have changed, and after the duration again if it
	// is not 0. It returns when ctx ends. If Watch is nil, scan is called at intervals.
	Watch func(ctx context.Context, wake <-chan struct{},
		scan func() (paths []string, again time.Duration)) error
	Interval       time.Duration // time between two scans of Dir without Watch; 0: 1 s
	SpecifyTimeout time.Duration // time limit for getting the specification of a compiled module; 0: 10 s
}

const (
	defaultInterval       = time.Second
	defaultSpecifyTimeout = 10 * time.Second
	settling              = 300 * time.Millisecond // how long after its last write a file may still be incomplete
)

// watch calls scan until ctx ends, with Watch or at intervals.
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
