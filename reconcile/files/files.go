// Package files brings the desired state in the store in line with the pipeline files of a
// directory.
//
// Absence is not deletion. Withdrawals are decided from a complete scan only. A file that cannot be read or parsed
// keeps its pipelines. The absence of all files counts only after files were seen to vanish, or after a person
// confirmed it (the mass-delete guard).
package files

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

// Reconciler brings the desired state in the store in line with the pipeline files.
type Reconciler struct {
	Store Store
	Watch *watch.Watcher
	// Parse is spec.Parser.File. It is called concurrently.
	Parse func(path string, data []byte) spec.File
	Log   *slog.Logger
	// Notify, when set, is called after a change of desired state, or of the state of the directory.
	Notify func()

	once    sync.Once
	wake    notify.Signal
	scanned chan struct{}                // closed after the first scan was taken
	own     atomic.Pointer[spec.Changes] // being applied by this reconciler
	recheck atomic.Bool                  // decide about everything the next time

	mu        sync.Mutex // guards the following fields
	last      *watch.Snapshot
	index     *index
	upTo      int64  // the revision of desired state that index holds; 0 to read all
	dir       string // the directory of the last scan
	populated bool   // it contained files
	confirmed bool   // or a person confirmed that the directory is empty
	// files of the last mass deletion, and its time
	vanished   []string
	vanishedAt time.Time
	status     Status
	throttle   notify.Throttle
}

// wakeDelay is the delay before the files are compared with a change by others.
const wakeDelay = 50 * time.Millisecond

// Store is the part of the store that a Reconciler needs.
type Store interface {
	// DeclarationsSince returns the changes of desired state, withdrawn pipelines included, since a revision that it
	// returned before. It returns everything if the revision is unknown or 0.
	DeclarationsSince(ctx context.Context, revision int64) (spec.Delta[spec.Declaration], error)
	// FileStates returns the states of the pipeline files, by path. Only the Reconciler changes them, through Apply.
	FileStates(ctx context.Context) ([]spec.FileState, error)
	// Apply performs c in one transaction.
	Apply(ctx context.Context, c *spec.Changes) error
}

// Status is the outcome of reading the pipeline files.
type Status struct {
	Err       error          // why the directory or the store could not be used, nil when all is well
	Retained  []string       // files that vanished together, so that nothing is withdrawn
	Directory spec.Directory // state in that scan
	At        time.Time      // of the last scan
}

func (r *Reconciler) init() {
	r.once.Do(func() {
		r.wake, r.scanned, r.index = notify.NewSignal(), make(chan struct{}), newIndex()
		r.throttle = notify.Throttle{Fails: "cannot follow the pipeline files; running pipelines continue",
			Recovered: "pipeline files are watched again"}
		if r.Log == nil {
			r.Log = slog.New(slog.DiscardHandler)
		}
	})
}

// Run follows the files until ctx ends, then it returns nil.
func (r *Reconciler) Run(ctx context.Context) error {
	r.init()
	watched := make(chan error, 1)
	go func() { watched <- r.Watch.Run(ctx, func(s watch.Snapshot) { _ = r.Take(ctx, s) }) }()
	var due <-chan time.Time // when changes of others are compared
	for ctx.Err() == nil {
		var retry, deleted <-chan time.Time
		if r.pending() {
			retry = time.After(time.Second)
		}
		if wait := r.untilDeleted(); wait > 0 {
			deleted = time.After(wait)
		}
		select {
		case <-ctx.Done():
		case <-r.wake:
			if due == nil { // many changes are compared together
				due = time.After(wakeDelay)
			}
		case <-due:
			due = nil
			if retry == nil {
				_ = r.retry(ctx)
			}
		case <-retry:
			_ = r.retry(ctx)
		case <-deleted:
			_ = r.retry(ctx)
		}
	}
	return <-watched
}

// Changed makes the reconciler compare the files with desired state again after the change c, or after an unknown
// change if c is nil. The reconciler's own changes do not count. It never blocks.
func (r *Reconciler) Changed(c *spec.Changes) {
	if c == nil || c != r.own.Load() {
		r.Wake()
	}
}

// Wake makes the reconciler compare the files with desired state again. It never blocks.
func (r *Reconciler) Wake() {
	r.init()
	r.wake.Notify()
}

// Recheck makes the reconciler compare all files with all of desired state, in case a change went unnoticed. It never
// blocks.
func (r *Reconciler) Recheck() {
	r.recheck.Store(true)
	r.Wake()
}

// Reload reads all files and returns when the store is in line with them, or the reason why it is not. With prune, the
// absence of all files counts: their pipelines are withdrawn.
func (r *Reconciler) Reload(ctx context.Context, prune bool) error {
	r.recheck.Store(true)
	if err := r.Watch.Reload(ctx); err != nil {
		return fmt.Errorf("cannot reload the pipeline files: %w", err)
	}
	if prune {
		r.mu.Lock()
		r.confirmed = true
		r.mu.Unlock()
		if err := r.retry(ctx); err != nil {
			return err
		}
	}
	return r.Status().Err
}

// Scanned returns nil once the files have been scanned for the first time, whatever the outcome.
func (r *Reconciler) Scanned(ctx context.Context) error {
	r.init()
	select {
	case <-r.scanned:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Status returns the last outcome.
func (r *Reconciler) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// pending reports whether the last snapshot could not be applied.
func (r *Reconciler) pending() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status.Err != nil && r.last != nil && r.last.Err == nil
}

// untilDeleted returns the time until files that vanished together count as deleted, which is still to be reported. 0
// means that there are none.
func (r *Reconciler) untilDeleted() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil || r.last.Err != nil || len(r.last.Files) > 0 || len(r.vanished) == 0 || r.confirmed ||
		r.status.Directory.State == spec.DirectoryEmptied {
		return 0
	}
	return max(time.Until(r.vanishedAt.Add(deletedAfter)), time.Millisecond)
}

func (r *Reconciler) retry(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		return nil
	}
	return r.apply(ctx, r.last)
}

// Take brings desired state in line with a scan.
func (r *Reconciler) Take(ctx context.Context, s watch.Snapshot) error {
	r.init()
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.Err != nil || s.Dir != r.dir {
		r.dir, r.populated, r.confirmed, r.upTo = s.Dir, false, false, 0
	}
	r.last = &s
	return r.apply(ctx, &s)
}

// apply does the work of Take and keeps its outcome. The caller holds r.mu.
func (r *Reconciler) apply(ctx context.Context, s *watch.Snapshot) error {
	retained, err := r.decide(ctx, s)
	before := r.status
	if before.At.IsZero() {
		close(r.scanned)
	}
	r.status = Status{Err: err, Retained: retained,
		Directory: directory(s, retained, r.deleted(s), before.Directory), At: time.Now()}
	r.observe(ctx, before.Directory)
	if ctx.Err() == nil {
		if s.Err != nil || err != nil && before.Err != nil && before.Err.Error() != err.Error() {
			r.throttle.Reset() // another error
		}
		if s.Err == nil { // else observe logs it
			r.throttle.Observe(r.Log.With("component", "files"), err)
		}
	}
	if err != nil && s.Err == nil {
		r.Wake() // makes Run try again
	}
	return err
}

// decide decides the changes for s and applies them to the store. It returns the files that are retained. The caller
// holds r.mu.
func (r *Reconciler) decide(ctx context.Context, s *watch.Snapshot) (retained []string, err error) {
	if s.Err != nil {
		return nil, s.Err
	}
	if err := r.read(ctx); err != nil {
		return r.status.Retained, err
	}
	gone := AllGone(r.index.known, s.Files)
	switch {
	case len(gone) > 0 && r.guarded():
		return gone, nil
	case len(gone) > 0 && !r.confirmed:
		r.vanished, r.vanishedAt = gone, time.Now()
		r.Wake() // Run looks again in time
	case len(s.Files) > 0:
		r.populated, r.confirmed, r.vanished = true, false, nil
	}
	r.index.update(s.Files, r.Parse)
	for range maxRounds {
		if done, err := r.round(ctx); done || err != nil {
			return nil, err
		}
		if err := r.read(ctx); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// maxRounds is the maximum number of times that changes are decided again after changes were applied.
const maxRounds = 10

// round decides changes and applies them. It reports whether there were none, or none that another decision may depend
// on. The caller holds r.mu.
func (r *Reconciler) round(ctx context.Context) (done bool, err error) {
	files, declared, known := r.index.undecided()
	c := Decide(files, declared, known, time.Now())
	if c.Empty() {
		r.index.applied(c)
		return true, nil
	}
	r.own.Store(c)
	err = r.Store.Apply(ctx, c)
	r.own.Store(nil)
	if err != nil {
		r.upTo = 0
		return false, fmt.Errorf("cannot save the desired state: %w", err)
	}
	r.index.applied(c)
	r.report(c)
	if r.Notify != nil {
		r.Notify()
	}
	return len(r.index.clashes) == 0, nil
}

// guarded reports whether the absence of all files counts as an accident: an empty directory may be an unmounted disk,
// unless files were seen to vanish from it. The caller holds r.mu.
func (r *Reconciler) guarded() bool { return !r.populated && !r.confirmed }

// deletedAfter is how long all files must be gone until that is reported: a program may replace them one by one.
const deletedAfter = 10 * time.Second

// deleted returns the files that were deleted together, if s has none. The caller holds r.mu.
func (r *Reconciler) deleted(s *watch.Snapshot) []string {
	if s.Err != nil || len(s.Files) > 0 || r.confirmed || time.Since(r.vanishedAt) < deletedAfter {
		return nil
	}
	return r.vanished
}

// Guarded reports whether the mass-delete guard would prevent withdrawals if the directory that Snapshot.Dir identifies
// were found without any files now.
func (r *Reconciler) Guarded(dir string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.guarded() || dir != r.dir
}

// AllGone returns the paths of the known files, sorted, if files gives no evidence that the directory is in use. An
// empty file that was never seen before is no evidence: it may be in the place of the directory.
func AllGone(known map[string]*spec.FileState, files []watch.File) []string {
	if slices.ContainsFunc(files, func(f watch.File) bool {
		return len(f.Data) > 0 || f.Err != nil || known[f.Path] != nil
	}) {
		return nil
	}
	return sortedKeys(known)
}

// read reads the changes that others made to desired state.
func (r *Reconciler) read(ctx context.Context) error {
	if r.recheck.Swap(false) {
		r.upTo = 0
	}
	delta, err := r.Store.DeclarationsSince(ctx, r.upTo)
	if err != nil {
		return fmt.Errorf("cannot read the desired state: %w", err)
	}
	if delta.All {
		known, err := r.Store.FileStates(ctx)
		if err != nil {
			return fmt.Errorf("cannot read the stored states of the pipeline files: %w", err)
		}
		r.index.reset(delta.Rows, known)
		r.upTo = delta.Revision
		return nil
	}
	for _, d := range delta.Rows {
		r.index.declare(d)
	}
	for _, id := range delta.Gone {
		r.index.undeclare(id)
	}
	r.upTo = delta.Revision
	return nil
}

// report logs the decisions. A file's problems are logged when they change.
func (r *Reconciler) report(c *spec.Changes) {
	log := r.Log.With("component", "files")
	for _, file := range c.Files {
		for _, p := range file.Problems {
			if p.Severity == spec.SeverityWarning {
				about(log, p.Pipeline).Warn(Place(p)+p.Message, "code", p.Code)
			} else {
				about(log, p.Pipeline).Error(Place(p)+p.Message, "code", p.Code)
			}
		}
	}
	for _, e := range c.Events {
		switch {
		case e.Type == spec.EventNormal:
			about(log, e.Pipeline).Info(e.Message, "file", e.File, "reason", e.Reason)
		case e.Pipeline != "": // the problems of the file are logged above
			about(log, e.Pipeline).Warn(e.Message, "file", e.File, "reason", e.Reason)
		}
	}
}

// about returns a logger with the id of the pipeline, if it is known.
func about(log *slog.Logger, pipelineID string) *slog.Logger {
	if pipelineID == "" {
		return log
	}
	return log.With("pipeline_id", pipelineID)
}
