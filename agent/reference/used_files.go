package reference

import (
	"crypto/sha256"
	"maps"
)

// digest is the digest of the content of a file; the zero value stands for a file that cannot be read.
type digest [sha256.Size]byte

// files are the files from which the versions of a pipeline took values, with the digests of their content.
type files struct {
	generation int64             // generation of the last attempted version
	tried      map[string]digest // by the attempted version, and by an earlier one in its place
	running    map[string]digest // by the version that runs, or ran last
}

// all returns the watched files.
func (f *files) all() map[string]digest { return merged(f.running, f.tried) }

// recordTried records the files of an attempted version. If an earlier version replaces one that failed, the files of
// both count: a change of either may fix the pipeline.
func (r *Resolver) recordTried(id string, generation int64, taken map[string]digest) {
	r.change(id, func(f *files) {
		f.running = renewed(f.running, taken)
		if f.generation > generation {
			generation, taken = f.generation, merged(f.tried, taken)
		}
		f.generation, f.tried = generation, taken
	})
}

// Running records that this version of a pipeline now runs.
func (r *Resolver) Running(id string, resolved *Resolution) {
	r.change(id, func(f *files) { f.running = renewed(resolved.files, f.tried) })
}

// Forget removes the files of a deleted pipeline.
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

// renewed returns files with the new digests from now.
func renewed(files, now map[string]digest) map[string]digest {
	all := maps.Clone(files)
	for path := range all {
		if content, ok := now[path]; ok {
			all[path] = content
		}
	}
	return all
}
