package reference

import (
	"crypto/sha256"
	"maps"
)

// digest is that of a file's content; the zero value is that of a file that cannot be read.
type digest [sha256.Size]byte

// files are the files that the versions of a pipeline took values from, and what was in them.
type files struct {
	generation int64             // that was tried last
	tried      map[string]digest // by it, and by an earlier one in its place
	running    map[string]digest // by the version that runs, or ran last
}

// all returns the files that are watched.
func (f *files) all() map[string]digest { return merged(f.running, f.tried) }

// tried notes the files of a version that is tried. When an earlier version stands in for one
// that failed, the files of both count: a change of either may mend the pipeline.
func (r *Resolver) tried(id string, generation int64, taken map[string]digest) {
	r.change(id, func(f *files) {
		f.running = renewed(f.running, taken)
		if f.generation > generation {
			generation, taken = f.generation, merged(f.tried, taken)
		}
		f.generation, f.tried = generation, taken
	})
}

// Running notes that this version of a pipeline runs from now on.
func (r *Resolver) Running(id string, resolved *Resolution) {
	r.change(id, func(f *files) { f.running = renewed(resolved.files, f.tried) })
}

// Forget forgets a pipeline that was deleted.
func (r *Resolver) Forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.used, id)
}

func (r *Resolver) change(id string, change func(*files)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used == nil {
		r.used = map[string]*files{}
	}
	var f files
	if before := r.used[id]; before != nil {
		f = *before
	}
	watched := f.all()
	change(&f)
	r.used[id] = &f
	for path := range f.all() {
		if _, ok := watched[path]; !ok {
			r.init()
			r.wake.Notify()
		}
	}
	if len(f.tried)+len(f.running) == 0 {
		delete(r.used, id)
	}
}

func (r *Resolver) snapshot() map[string]*files {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.used)
}

func merged(a, b map[string]digest) map[string]digest {
	all := map[string]digest{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

// renewed returns files with the content that now has of them.
func renewed(files, now map[string]digest) map[string]digest {
	all := maps.Clone(files)
	for path := range all {
		if content, ok := now[path]; ok {
			all[path] = content
		}
	}
	return all
}
