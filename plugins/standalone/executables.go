package standalone

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/plugins/sandbox"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/fingerprint"
	"github.com/conduit-agent/conduit/spec/notify"
)

// Executables is the Registry of the connector executables in a directory. Each file runs once, in its own process, to
// return its specification, and again when its content has changed. A Go program also runs once for all Executables
// with the same Specifications. Problems returns the files that are no plugins;
// they do not affect the others.
//
// Set the exported fields, then call Run or, to scan once, Rescan.
type Executables struct {
	Dir      string          // may be missing; its subdirectories and hidden files are ignored
	Schemas  schema.Registry // served to the plugins; nil: none
	Bounds   *schema.Bounds  // limits for plugins that use Schemas; nil: none
	Env      []string        // environment of plugins, as NAME=value; nil: environment of this process
	Log      *slog.Logger    // nil discards
	LogLevel string          // log level of plugins; empty: info

	Sandbox    *sandbox.Policy // rights of plugins, in addition to their needs; nil: rights of this process
	MaxMessage int             // maximum size of a message from a plugin, in bytes; 0: 16 MiB
	MaxSend    int             // maximum size of a message to a plugin, in bytes; 0: 4 MiB
	TempDir    string          // directory for the private directories of plugins; empty: default of the machine
	// file that lists the processes started by plugins and their mark, so that the next agent ends them if this one is
	// killed; empty: none
	Record string
	// file that keeps specifications from one start to the next; empty: none
	Specifications string
	RejectWritable bool // refuse executables that others can change, instead of a warning

	Changed func() // if set, called after plugins were added, removed or changed; must not block

	// Watch calls scan after a change of the paths that the last scan returned, when it receives from wake, and after
	// the time that scan returned, until ctx ends. nil scans once each Interval.
	Watch func(ctx context.Context, wake <-chan struct{},
		scan func() (paths []string, again time.Duration)) error
	Interval       time.Duration // between two scans of Dir without Watch; 0: a second
	SpecifyTimeout time.Duration // time limit for an executable to return its specification; 0: 30 s

	// Tests shorten these.
	firstAgain     time.Duration // 0: firstAgain
	substituteWait time.Duration // 0: substituteWait

	prepare    sync.Once
	endOrphans func(context.Context) // set by Prepare

	once  sync.Once
	wake  notify.Signal // there is work for Run
	slots chan struct{} // limits the number of executables specified at a time

	answers answers

	scanning sync.Mutex // held during a scan of the directory

	mu       sync.Mutex
	dirErr   error                     // guarded by mu: error of reading Dir
	files    map[string]*file          // guarded by mu: by path; values are replaced, never modified
	plugins  map[pluginname.Name]*file // guarded by mu: files that are plugins, each name once
	problems map[string]string         // guarded by mu: by path, why a file is no plugin
	warnings map[string]string         // guarded by mu: by path, why others can change a plugin
	changes  chan struct{}             // guarded by mu: closed and replaced when any of this changes
	running  map[*running]bool         // guarded by mu: running connectors
}

// file is a file in the directory. Links are followed: path is the target.
type file struct {
	path, entry string
	print       fingerprint.Print
	err         error     // reason why it is no plugin
	writable    error     // why others can change it
	pending     bool      // its current content is not specified yet
	running     bool      // it is being specified
	examined    time.Time // end of a failed run whose cause may be outside the file; zero: none
	tries       int       // number of interrupted attempts
	again       time.Time // time of the next attempt after an interrupted one; zero: none
	sum         string
	spec        *sdk.Specification // specification of the content with this sum; nil: none
}

const (
	parallel        = 4
	defaultInterval = time.Second
)

func (e *Executables) init() {
	e.once.Do(func() {
		e.wake, e.slots, e.changes = notify.NewSignal(), make(chan struct{}, parallel), make(chan struct{})
		e.files = map[string]*file{}
		e.answers.path = e.Specifications
		if e.Log == nil {
			e.Log = slog.New(slog.DiscardHandler)
		}
	})
}

// Prepare marks all processes that this process starts from now on, so that the next agent can find and end them if
// this one is killed. Run calls Prepare if nothing else has.
func (e *Executables) Prepare() {
	e.init()
	e.prepare.Do(func() { e.endOrphans = Prepare(e.Record, e.Log) })
}

// Run watches the directory until ctx ends. The processes of connectors continue after that.
func (e *Executables) Run(ctx context.Context) error {
	e.init()
	var work sync.WaitGroup
	defer work.Wait()
	e.Prepare()
	work.Go(func() { e.endOrphans(ctx) })
	watch := e.Watch
	if watch == nil {
		watch = e.poll
	}
	return watch(ctx, e.wake, func() (paths []string, again time.Duration) {
		e.scan()
		again = e.specifyPending(ctx, &work)
		return e.watched(), again
	})
}

// poll is the Watch of an Executables without one.
func (e *Executables) poll(
	ctx context.Context, wake <-chan struct{}, scan func() (paths []string, again time.Duration),
) error {
	interval := cmp.Or(e.Interval, defaultInterval)
	for {
		_, again := scan()
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-time.After(min(interval, cmp.Or(again, interval))):
		}
	}
}

// Rescan scans the directory once. It returns when every file in it is specified, or when ctx ends.
func (e *Executables) Rescan(ctx context.Context) {
	e.init()
	var work sync.WaitGroup
	defer work.Wait()
	for {
		e.scan()
		e.specifyPending(ctx, &work)
		changes, pending := e.state()
		if !pending || ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changes:
		case <-time.After(writeDebounce):
		}
	}
}

// Installed returns the known plugins.
func (e *Executables) Installed() []plugins.Installed {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]plugins.Installed, 0, len(e.plugins))
	for _, f := range e.plugins {
		p := plugins.Installed{Specification: *f.spec, Kind: pluginname.Standalone, Path: f.entry}
		p.Source, p.Destination = sides(f.spec)
		all = append(all, p)
	}
	return all
}

// Problems returns the unusable files with the reasons, by path.
func (e *Executables) Problems() []plugins.Problem {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []plugins.Problem
	for _, path := range slices.Sorted(maps.Keys(e.problems)) {
		all = append(all, plugins.Problem{Path: path, Reason: e.problems[path]})
	}
	return all
}

// state returns a channel that is closed at the next change, and whether there are files that are not specified yet.
func (e *Executables) state() (changes <-chan struct{}, pending bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, f := range e.files {
		pending = pending || f.pending
	}
	return e.changes, pending
}

// classify decides which files are plugins, and gives the reasons for the others. The caller holds mu.
func (e *Executables) classify() (plugins map[pluginname.Name]*file, problems map[string]string) {
	plugins, problems = map[pluginname.Name]*file{}, map[string]string{}
	if e.dirErr != nil {
		problems[e.Dir] = e.dirErr.Error()
	}
	same := map[pluginname.Name][]string{}
	for _, f := range e.files {
		switch {
		case f.err != nil:
			problems[f.entry] = f.problem()
		case f.spec != nil:
			name := pluginname.Name{Kind: pluginname.Standalone, Name: f.spec.Name, Version: f.spec.Version}
			plugins[name] = f
			same[name] = append(same[name], f.entry)
		}
	}
	for name, paths := range same {
		if len(paths) == 1 {
			continue
		}
		delete(plugins, name)
		slices.Sort(paths)
		for _, path := range paths {
			problems[path] = fmt.Sprintf("several files provide %s, so none is used: %s", name,
				strings.Join(paths, ", "))
		}
	}
	return plugins, problems
}

// reclassify updates the set of plugins. It returns the log lines, and whether plugins were added, removed or changed.
// The caller holds mu.
func (e *Executables) reclassify() (lines []func(), changed bool) {
	plugins, problems := e.classify()
	for name, f := range plugins {
		if before := e.plugins[name]; before == nil || before.sum != f.sum || before.path != f.path {
			changed = true
			message := "plugin found"
			if before != nil {
				message = "plugin replaced; running connectors use the previous file until they are restarted"
			}
			lines = append(lines, func() {
				e.Log.Info(message, "component", "plugins", "plugin_name", name.String(), "path", f.entry)
			})
		}
	}
	for name, f := range e.plugins {
		if plugins[name] == nil {
			changed = true
			lines = append(lines, func() {
				e.Log.Info("plugin gone", "component", "plugins", "plugin_name", name.String(), "path", f.entry)
			})
		}
	}
	for path, reason := range problems {
		if e.problems[path] != reason {
			lines = append(lines, func() {
				e.Log.Warn("file is not used as a plugin", "component", "plugins", "path", path, "err", reason)
			})
		}
	}
	warnings := writable(e)
	for path, reason := range warnings {
		if e.warnings[path] != reason {
			lines = append(lines, func() {
				e.Log.Warn("other users can change the plugin, and so run any program as the agent", "component",
					"plugins", "path", path, "err", reason)
			})
		}
	}
	e.plugins, e.problems, e.warnings = plugins, problems, warnings
	close(e.changes)
	e.changes = make(chan struct{})
	return lines, changed
}

// update applies a change, logs its effects, and calls Changed.
func (e *Executables) update(change func()) {
	e.mu.Lock()
	change()
	lines, changed := e.reclassify()
	e.mu.Unlock()
	for _, log := range lines {
		log()
	}
	if changed && e.Changed != nil {
		e.Changed()
	}
}
