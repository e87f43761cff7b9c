package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

// Files brings the desired state in the store in line with the pipeline files.
type Files struct {
	Store Store
	Watch *watch.Watcher
	// Parse is spec.ParseFile. Several files are parsed at the same time.
	Parse func(path string, data []byte) spec.File
	Log   *slog.Logger
	// Changed, when set, is called after desired state changed, or the state of the directory.
	Changed func()

	once   sync.Once
	wake   notify.Signal
	looked chan struct{} // closed after the first look

	mu        sync.Mutex // guards what follows
	last      *watch.Snapshot
	index     *index
	upTo      int64  // the revision of desired state that index holds; 0 to read all
	dir       string // the directory last looked at,
	populated bool   // in which there were files,
	confirmed bool   // or whose emptiness somebody confirmed
	status    FilesStatus
	throttle  notify.Throttle
}

// fullInterval is how often everything is compared, should a change have gone unnoticed.
const fullInterval = time.Minute

// wakeDelay is how long after a change by others the files are compared with it.
const wakeDelay = 50 * time.Millisecond

// FilesStatus says how reading the pipeline files goes.
type FilesStatus struct {
	Err       error          // why the directory or the store could not be used, nil when all is well
	Held      []string       // files that are gone with all others, so that nothing is withdrawn
	Directory spec.Directory // how it was found
	At        time.Time      // of the last look
}

func (f *Files) init() {
	f.once.Do(func() {
		f.wake, f.looked, f.index = notify.NewSignal(), make(chan struct{}), newIndex()
		f.throttle = notify.Throttle{Fails: "pipeline files are not followed, what runs keeps running", Recovered: "pipeline files are followed again"}
		if f.Log == nil {
			f.Log = slog.New(slog.DiscardHandler)
		}
	})
}

// Run follows the files until ctx ends, then it returns nil.
func (f *Files) Run(ctx context.Context) error {
	f.init()
	watched := make(chan error, 1)
	go func() { watched <- f.Watch.Run(ctx, func(s watch.Snapshot) { _ = f.Take(ctx, s) }) }()
	var settle <-chan time.Time
	all := time.NewTicker(fullInterval)
	defer all.Stop()
	for ctx.Err() == nil {
		var retry <-chan time.Time
		if f.pending() {
			retry = time.After(time.Second)
		}
		select {
		case <-ctx.Done():
		case <-f.wake:
			// Most changes are our own. What others did can wait until those are acted on.
			if settle == nil {
				settle = time.After(wakeDelay)
			}
		case <-settle:
			settle = nil
			if retry == nil {
				_ = f.again(ctx)
			}
		case <-retry:
			_ = f.again(ctx)
		case <-all.C:
			f.doubt()
			_ = f.again(ctx)
		}
	}
	return <-watched
}

// Wake has the files compared with desired state again, after that was changed by
// others. It never blocks.
func (f *Files) Wake() {
	f.init()
	f.wake.Notify()
}

// Reload reads all files and returns when the store is in line with them, or why it is
// not. With prune, the absence of all files counts: their pipelines are withdrawn.
func (f *Files) Reload(ctx context.Context, prune bool) error {
	f.doubt()
	if err := f.Watch.Reload(ctx); err != nil {
		return fmt.Errorf("cannot reload the pipeline files: %w", err)
	}
	if prune {
		f.mu.Lock()
		f.confirmed = true
		f.mu.Unlock()
		if err := f.again(ctx); err != nil {
			return err
		}
	}
	return f.Status().Err
}

// Looked returns nil once the files have been looked at for the first time, however that
// went.
func (f *Files) Looked(ctx context.Context) error {
	f.init()
	select {
	case <-f.looked:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Status returns how it went last.
func (f *Files) Status() FilesStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

// doubt has everything decided anew the next time.
func (f *Files) doubt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.upTo = 0
}

// pending reports whether the last snapshot could not be applied.
func (f *Files) pending() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status.Err != nil && f.last != nil && f.last.Err == nil
}

func (f *Files) again(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil {
		return nil
	}
	return f.bring(ctx, f.last)
}

// Take brings desired state in line with s.
func (f *Files) Take(ctx context.Context, s watch.Snapshot) error {
	f.init()
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.Err != nil || s.Dir != f.dir {
		f.dir, f.populated, f.confirmed, f.upTo = s.Dir, false, false, 0
	}
	f.last = &s
	return f.bring(ctx, &s)
}

// bring does the work of Take and keeps its outcome. f.mu is held.
func (f *Files) bring(ctx context.Context, s *watch.Snapshot) error {
	held, err := f.apply(ctx, s)
	before := f.status
	if before.At.IsZero() {
		close(f.looked)
	}
	f.status = FilesStatus{Err: err, Held: held, Directory: directory(s, held, before.Directory), At: time.Now()}
	f.observe(ctx, before.Directory)
	if ctx.Err() == nil {
		if s.Err != nil || err != nil && before.Err != nil && before.Err.Error() != err.Error() {
			f.throttle.Reset() // it is another one
		}
		if s.Err == nil { // else observe tells
			f.throttle.Observe(f.Log.With("component", "files"), err)
		}
	}
	if err != nil && s.Err == nil {
		f.Wake() // to have Run try again
	}
	return err
}

func (f *Files) apply(ctx context.Context, s *watch.Snapshot) (held []string, err error) {
	if s.Err != nil {
		return nil, s.Err
	}
	if err := f.read(ctx); err != nil {
		return f.status.Held, err
	}
	if f.wary() {
		if gone := AllGone(f.index.known, s.Files); len(gone) > 0 {
			return gone, nil
		}
	}
	if len(s.Files) > 0 {
		f.populated, f.confirmed = true, false
	}
	f.index.see(s.Files, f.Parse)
	files, declared, known := f.index.undecided()
	c := Decide(files, declared, known, time.Now())
	if c.Empty() {
		f.index.settled(c)
		return nil, nil
	}
	if err := f.Store.Apply(ctx, c); err != nil {
		f.upTo = 0
		return nil, fmt.Errorf("cannot save the desired state: %w", err)
	}
	f.index.settled(c)
	f.tell(c)
	if f.Changed != nil {
		f.Changed()
	}
	return nil, nil
}

// wary reports whether the absence of all files counts as an accident: an empty directory
// may be a disk that is not mounted, unless files vanished from it before our eyes. f.mu is held.
func (f *Files) wary() bool { return !f.populated && !f.confirmed }

// Wary reports whether nothing would be withdrawn if the directory that Snapshot.Dir
// identifies were found without any files now.
func (f *Files) Wary(dir string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wary() || dir != f.dir
}

// AllGone returns the paths of the known files, sorted, if files shows nothing of the directory
// being in use. An empty file that was never seen before does not: it may be in the place of
// the directory.
func AllGone(known map[string]*spec.FileState, files []watch.File) []string {
	if slices.ContainsFunc(files, func(f watch.File) bool { return len(f.Data) > 0 || f.Err != nil || known[f.Path] != nil }) {
		return nil
	}
	return sortedKeys(known)
}

// read takes up what others changed of desired state.
func (f *Files) read(ctx context.Context) error {
	delta, err := f.Store.DeclarationsSince(ctx, f.upTo)
	if err != nil {
		return fmt.Errorf("cannot read the desired state: %w", err)
	}
	if delta.All {
		known, err := f.Store.FileStates(ctx)
		if err != nil {
			return fmt.Errorf("cannot read what is known of the pipeline files: %w", err)
		}
		f.index.reset(delta.Rows, known)
		f.upTo = delta.Revision
		return nil
	}
	for i := range delta.Rows {
		f.index.declare(&delta.Rows[i])
	}
	for _, id := range delta.Gone {
		f.index.undeclare(id)
	}
	f.upTo = delta.Revision
	return nil
}

// tell logs what was decided. A file's problems are logged when they change.
func (f *Files) tell(c *spec.Changes) {
	log := f.Log.With("component", "files")
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
		case e.Type == normal:
			about(log, e.Pipeline).Info(e.Message, "file", e.File, "reason", e.Reason)
		case e.Pipeline != "": // what is wrong with a file was said above
			about(log, e.Pipeline).Warn(e.Message, "file", e.File, "reason", e.Reason)
		}
	}
}

// about returns a logger for what concerns a pipeline, if it is known which.
func about(log *slog.Logger, pipelineID string) *slog.Logger {
	if pipelineID == "" {
		return log
	}
	return log.With("pipeline_id", pipelineID)
}
