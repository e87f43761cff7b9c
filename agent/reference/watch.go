package reference

import (
	"cmp"
	"context"
	"crypto/sha256"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec/fingerprint"
)

// The interval of scans of referenced files without file events, and the shorter one while a file changes: it may be
// written in pieces, so a change counts only when two consecutive scans see the same content.
const (
	pollInterval = 500 * time.Millisecond
	debounce     = 50 * time.Millisecond
)

// observation is the state of a file in a scan.
type observation struct {
	print   fingerprint.Print
	certain bool // an equal fingerprint means equal content
	content digest
	stable  bool // the previous scan saw the same content
}

// Run watches the referenced files until ctx ends, then it returns nil.
func (r *Resolver) Run(ctx context.Context) error {
	r.init()
	r.observed = map[string]*observation{}
	r.Watch.Debounce, r.Watch.Poll = debounce, pollInterval
	return r.Watch.Run(ctx, r.wake, func() (paths []string, again time.Duration) {
		if !r.scan(ctx) {
			again = debounce
		}
		return slices.Sorted(maps.Keys(r.observed)), again
	})
}

// scan applies the pipelines again whose files have changed. It returns false while a file is changing.
func (r *Resolver) scan(ctx context.Context) (stable bool) {
	changed, stable := r.compare(ctx)
	for _, c := range changed {
		log := r.Log.With("component", "agent", "pipeline_id", c.pipeline)
		log.Info("a file that the pipeline refers to has changed, re-applying the pipeline", "file", c.path)
		if err := r.Apply(ctx, c.pipeline); err != nil && ctx.Err() == nil {
			log.Debug("cannot re-apply the pipeline", "err", err)
		}
	}
	return stable
}

// change is the first file of a pipeline that changed.
type change struct{ pipeline, path string }

// compare finds the pipelines that took values from a file whose content has changed since. It updates their record of
// the content, so that each change is reported once.
func (r *Resolver) compare(ctx context.Context) (changed []change, stable bool) {
	before := r.snapshot()
	r.observe(ctx, before)
	r.mu.Lock()
	defer r.mu.Unlock()
	stable = true
	for _, id := range slices.Sorted(maps.Keys(before)) {
		f := before[id]
		if r.used[id] != f {
			continue // resolved again meanwhile
		}
		now, first, calm := r.differences(f)
		stable = stable && calm
		if first != "" {
			r.used[id] = &files{f.generation, renewed(f.tried, now), renewed(f.running, now)}
			changed = append(changed, change{id, first})
		}
	}
	return changed, stable
}

// differences returns the current digests of the files whose content has changed since values were taken from them, and
// the first such file. stable is false while a file is changing.
func (r *Resolver) differences(f *files) (now map[string]digest, first string, stable bool) {
	now, stable = map[string]digest{}, true
	taken := f.all()
	for _, path := range slices.Sorted(maps.Keys(taken)) {
		o := r.observed[path]
		stable = stable && o.stable
		// A missing file is no reason to stop a running pipeline.
		if !o.stable || o.content == (digest{}) || o.content == taken[path] {
			continue
		}
		now[path], first = o.content, cmp.Or(first, path)
	}
	return now, first, stable
}

// observe observes every file in use, and forgets the others.
func (r *Resolver) observe(ctx context.Context, used map[string]*files) {
	observed := make(map[string]*observation, len(r.observed))
	for _, f := range used {
		for path := range f.all() {
			if observed[path] == nil {
				observed[path] = r.observeFile(ctx, path, r.observed[path])
			}
		}
	}
	r.observed = observed
}

// observeFile observes a file. A file on a file system that hangs counts as gone.
func (r *Resolver) observeFile(ctx context.Context, path string, before *observation) *observation {
	now, err := within(ctx, &r.reads, pollInterval, "observe "+path, func() (*observation, error) {
		return observe(path, before), nil
	})
	if err != nil {
		return &observation{stable: true}
	}
	return now
}

// observe reads a file, unless its fingerprint is unchanged.
func observe(path string, before *observation) *observation {
	info, err := os.Stat(path)
	if err != nil {
		return &observation{stable: true}
	}
	print := fingerprint.Of(info)
	if before != nil && before.stable && before.certain && before.print == print {
		return before
	}
	now := &observation{print: print, certain: print.Certain(time.Now())}
	if data, err := watch.ReadFile(path, info, os.OpenFile); err == nil {
		now.content = sha256.Sum256(data)
	}
	now.stable = before == nil || before.content == now.content
	return now
}
