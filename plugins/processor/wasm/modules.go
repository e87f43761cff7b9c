package wasm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Modules are the processors in a directory. Each file is compiled and asked for its specification when it appears and
// when it changes. Problems reports the files that are not processors; they affect nothing else.
type Modules struct {
	Options // must not change after Run or Rescan was called
	cache   cache

	scanning chan struct{} // of capacity one, full while the directory is compared with the known files
	scanned  chan struct{} // closed when the directory was scanned for the first time
	first    sync.Once     // closes scanned

	mu      sync.Mutex
	dirErr  error             // guarded by mu: why the directory could not be read
	files   map[string]*file  // guarded by mu: by path; values are replaced, never modified
	plugins []*module         // guarded by mu: each name and version once
	running map[*running]bool // guarded by mu
	pruned  bool              // guarded by mu: the cache was pruned for the current files
}

// file is one file of the directory.
type file struct {
	stamp  stamp
	module *module // nil: not a processor
	err    error   // why it is not a processor
}

// New returns the modules that the options describe. Nothing is read before Run or Rescan.
func New(o Options) *Modules {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Log = o.Log.With("component", "processor.wasm")
	o.Bounds = cmp.Or(o.Bounds, &schema.Bounds{})
	return &Modules{Options: o, cache: cache{o.CacheDir, o.Log}, scanning: make(chan struct{}, 1),
		scanned: make(chan struct{})}
}

// Run watches the directory until ctx ends. Running processors outlive it.
func (m *Modules) Run(ctx context.Context) error {
	return m.watch(ctx, func(ctx context.Context) bool {
		complete := m.scan(ctx)
		if complete {
			m.prune(time.Now())
		}
		return complete
	})
}

// Rescan scans the directory once and returns when every file in it is inspected, or when ctx ends.
func (m *Modules) Rescan(ctx context.Context) {
	for !m.scan(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(settling / 3):
		}
	}
}

// Await returns nil when the directory was scanned and no scan is running, or ctx.Err.
func (m *Modules) Await(ctx context.Context) error {
	select {
	case <-m.scanned:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case m.scanning <- struct{}{}:
		<-m.scanning
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Plugins returns the processors that are known now.
func (m *Modules) Plugins() []sdk.ProcessorPlugin {
	m.mu.Lock()
	defer m.mu.Unlock()
	plugins := make([]sdk.ProcessorPlugin, len(m.plugins))
	for i, module := range m.plugins {
		plugins[i] = module.plugin(m)
	}
	return plugins
}

// Problems returns the unused files with the reasons, by path.
func (m *Modules) Problems() (problems []Problem) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dirErr != nil {
		problems = append(problems, Problem{m.Dir, m.dirErr.Error()})
	}
	for _, path := range slices.Sorted(maps.Keys(m.files)) {
		f := m.files[path]
		if f.err != nil {
			problems = append(problems, Problem{path, f.err.Error()})
		} else if !slices.Contains(m.plugins, f.module) {
			problems = append(problems, Problem{path,
				fmt.Sprintf("another file is processor %s@%s, too", f.module.spec.Name, f.module.spec.Version)})
		}
	}
	return problems
}

// Close releases the compiled code. No processor may be running.
func (m *Modules) Close(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, f := range m.files {
		if f.module != nil {
			errs = append(errs, f.module.users.retire())
		}
	}
	return errors.Join(errs...)
}

// scan compares the directory with the known files. It returns false when a file must be scanned again: it is still
// being written, or ctx ended before it was inspected.
func (m *Modules) scan(ctx context.Context) (complete bool) {
	select {
	case m.scanning <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-m.scanning }()
	defer func() {
		if ctx.Err() == nil {
			m.first.Do(func() { close(m.scanned) })
		}
	}()
	found, err := list(m.Dir)
	m.mu.Lock()
	known := m.files
	changed := (err == nil) != (m.dirErr == nil)
	m.dirErr = err
	m.mu.Unlock()
	if err != nil {
		return true // an unreadable directory removes no known file
	}
	files := make(map[string]*file, len(found))
	complete = true
	for _, path := range slices.Sorted(maps.Keys(found)) {
		info, old := found[path], known[path]
		switch {
		case old != nil && old.stamp == stampOf(info):
			files[path] = old
			continue
		case !quiet(info, time.Now()):
			complete = false
			if old != nil {
				files[path] = old // use the old version until the new one is inspected
			}
			continue
		}
		f := m.inspect(ctx, path, info)
		if f.err != nil && ctx.Err() != nil { // nothing is known about the file: its inspection was interrupted
			complete = false
			if old != nil {
				files[path] = old
			}
			continue
		}
		if f.err != nil {
			m.Log.Warn("cannot load processor", "plugin_path", path, "err", f.err)
		} else {
			m.Log.Info("processor found", "plugin_path", path, "plugin_name", f.module.spec.GetName()+"@"+
				f.module.spec.GetVersion())
		}
		files[path] = f
		changed = true
	}
	if changed || len(files) != len(known) {
		m.replace(files)
	}
	return complete
}

// replace replaces the known files.
func (m *Modules) replace(files map[string]*file) {
	m.mu.Lock()
	before := m.files
	m.files, m.plugins, m.pruned = files, nil, false
	for _, path := range slices.Sorted(maps.Keys(files)) {
		f := files[path]
		if f.module != nil && !slices.ContainsFunc(m.plugins, f.module.sameName) {
			m.plugins = append(m.plugins, f.module)
		}
	}
	m.mu.Unlock()
	for path, f := range before {
		if f.module != nil && (files[path] == nil || files[path].module != f.module) {
			_ = f.module.users.retire()
		}
	}
	if m.Changed != nil {
		m.Changed()
	}
}

// inspect loads a file and records the module or the error.
func (m *Modules) inspect(ctx context.Context, path string, info fs.FileInfo) *file {
	f := &file{stamp: stampOf(info)}
	f.module, f.err = m.load(ctx, path, f.stamp)
	return f
}

// load reads a file and gets the specification of the processor in it. The specification is cached: a known module is
// not compiled before it is used.
func (m *Modules) load(ctx context.Context, path string, s stamp) (*module, error) {
	content, err := readModule(path)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(content)
	module := &module{modules: m, path: path, stamp: s, sum: hex.EncodeToString(hash[:])}
	if module.spec = m.cache.specification(module.sum); module.spec != nil {
		m.cache.touch(module.sum)
		return module, nil
	}
	if err := module.compile(ctx, content); err != nil {
		return nil, err
	}
	start := time.Now()
	if module.spec, err = module.specify(ctx); err != nil {
		_ = module.users.retire()
		return nil, fmt.Errorf("cannot find out which processor it is: %w", err)
	}
	m.Log.Debug("loaded processor", "plugin_path", path, "plugin_name", module.spec.Name, "took", time.Since(start))
	m.cache.keepSpecification(module.sum, module.spec)
	return module, nil
}
