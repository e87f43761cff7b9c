package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec"
)

// How often the files that settings refer to are looked at, and how long one that
// changed must stay as it is: it may be written in pieces.
const (
	inputInterval = 500 * time.Millisecond
	inputSettle   = 50 * time.Millisecond
)

// inputs remembers which files the settings of pipelines took their values from, and
// has a pipeline applied again when one of its files has other content. It keeps digests
// only, in memory only.
type inputs struct {
	reads
	apply func(ctx context.Context, pipelineID string) error
	log   *slog.Logger

	mu   sync.Mutex
	used map[string]*usage // by pipeline; guarded by mu; values are replaced, never modified

	files map[string]*input // by path; owned by Run
}

// usage is what the versions of a pipeline that may be wanted took from files.
type usage struct {
	generation int64             // that was tried last
	tried      map[string]digest // by it, and by an earlier one in its place
	running    map[string]digest // by what runs, or ran last
}

// files returns all that counts.
func (u *usage) files() map[string]digest { return merged(u.running, u.tried) }

// digest is that of a file's content; the zero value is that of a file that cannot be read.
type digest [sha256.Size]byte

// input is a file as it was looked at last.
type input struct {
	info    fs.FileInfo
	content digest
	settled bool // the look before saw the same
}

// resolution is a version of a pipeline with its references replaced.
type resolution struct {
	pipeline *spec.Pipeline
	files    map[string]digest // what was taken from files
	secrets  secrets           // what the references led to
}

// resolve replaces the references of a pipeline that is about to run.
func (in *inputs) resolve(ctx context.Context, d *spec.Declaration) (*resolution, []spec.Problem) {
	r := &resolution{files: map[string]digest{}}
	find := in.lookup(ctx)
	lookup := find
	lookup.Found = r.secrets.add
	lookup.File = func(path string) (string, error) { return note(r.files, path, path, find.File) }
	lookup.Credential = func(name string) (string, error) {
		return note(r.files, credentialPath(name), name, find.Credential)
	}
	var problems []spec.Problem
	r.pipeline, problems = spec.Resolve(&d.Pipeline, lookup)
	in.tried(d.Pipeline.ID, d.Generation, r.files)
	return r, problems
}

func note(files map[string]digest, path, name string, read func(string) (string, error)) (string, error) {
	text, err := read(name)
	files[path] = digest{}
	if err == nil {
		files[path] = sha256.Sum256([]byte(text))
	}
	return text, err
}

// tried notes what a version uses. An earlier version stands in for one that failed:
// then the files of both count, because they may be what mends it.
func (in *inputs) tried(id string, generation int64, files map[string]digest) {
	in.change(id, func(u *usage) {
		u.running = renewed(u.running, files)
		if u.generation > generation {
			generation, files = u.generation, merged(u.tried, files)
		}
		u.generation, u.tried = generation, files
	})
}

// runs notes what the version uses that runs from now on.
func (in *inputs) runs(id string, files map[string]digest) {
	in.change(id, func(u *usage) { u.running = renewed(files, u.tried) })
}

func (in *inputs) change(id string, change func(*usage)) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.used == nil {
		in.used = map[string]*usage{}
	}
	var u usage
	if before := in.used[id]; before != nil {
		u = *before
	}
	change(&u)
	in.used[id] = &u
	if len(u.tried)+len(u.running) == 0 {
		delete(in.used, id)
	}
}

// Run follows the files until ctx ends, then it returns nil.
func (in *inputs) Run(ctx context.Context) error {
	in.files = map[string]*input{}
	wait := inputInterval
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = inputInterval
		if !in.look(ctx) {
			wait = inputSettle
		}
	}
}

// look compares the files with what was taken from them. It returns false when one of
// them changes right now.
func (in *inputs) look(ctx context.Context) bool {
	changed, settled := in.compare(ctx)
	for _, c := range changed {
		in.log.Info("a file that the pipeline refers to has changed, applying it again", "component", "agent", "pipeline_id", c.pipeline, "file", c.path)
		if err := in.apply(ctx, c.pipeline); err != nil && ctx.Err() == nil {
			in.log.Debug("pipeline is not applied again", "component", "agent", "pipeline_id", c.pipeline, "err", err)
		}
	}
	return settled
}

// change is the first file of a pipeline that changed.
type change struct{ pipeline, path string }

// compare finds the pipelines that took something else from a file than is in it now.
// What they took is then taken for what is there, so that each change is told once.
func (in *inputs) compare(ctx context.Context) (changed []change, settled bool) {
	before := in.snapshot()
	in.refresh(ctx, before)
	in.mu.Lock()
	defer in.mu.Unlock()
	settled = true
	for _, id := range slices.Sorted(maps.Keys(before)) {
		u := before[id]
		if in.used[id] != u {
			continue // prepared again meanwhile
		}
		now, first, calm := in.differences(u)
		settled = settled && calm
		if first != "" {
			in.used[id] = &usage{u.generation, renewed(u.tried, now), renewed(u.running, now)}
			changed = append(changed, change{id, first})
		}
	}
	return changed, settled
}

// differences returns what is in files now that had other content when they were used,
// and the first of them. calm is false when one changes right now.
func (in *inputs) differences(u *usage) (now map[string]digest, first string, calm bool) {
	now, calm = map[string]digest{}, true
	files := u.files()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		f := in.files[path]
		calm = calm && f.settled
		// A file that is gone is no reason to stop what runs.
		if !f.settled || f.content == (digest{}) || f.content == files[path] {
			continue
		}
		now[path], first = f.content, cmp.Or(first, path)
	}
	return now, first, calm
}

func (in *inputs) snapshot() map[string]*usage {
	in.mu.Lock()
	defer in.mu.Unlock()
	return maps.Clone(in.used)
}

// refresh looks at every file in use, and forgets the others.
func (in *inputs) refresh(ctx context.Context, used map[string]*usage) {
	files := make(map[string]*input, len(in.files))
	for _, u := range used {
		for path := range u.files() {
			if files[path] == nil {
				files[path] = in.inspect(ctx, path, in.files[path])
			}
		}
	}
	in.files = files
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

// inspect looks at a file. One on a file system that hangs counts as gone.
func (in *inputs) inspect(ctx context.Context, path string, before *input) *input {
	now, err := within(ctx, &in.reads, inputInterval, "look "+path, func() (*input, error) { return inspect(path, before), nil })
	if err != nil {
		return &input{settled: true}
	}
	return now
}

// inspect reads a file unless it is evidently as it was before.
func inspect(path string, before *input) *input {
	info, err := os.Stat(path)
	if err != nil {
		return &input{settled: true}
	}
	// Within two seconds of a change, another one may bear the same time.
	certain := time.Since(info.ModTime()) > 2*time.Second
	if certain && before != nil && before.settled && before.info != nil && os.SameFile(before.info, info) &&
		before.info.ModTime().Equal(info.ModTime()) && before.info.Size() == info.Size() {
		return before
	}
	now := &input{info: info}
	if data, err := watch.ReadFile(path, info, os.OpenFile); err == nil {
		now.content = sha256.Sum256(data)
	}
	now.settled = before == nil || before.content == now.content
	return now
}

// credentialPath returns where systemd puts a credential.
func credentialPath(name string) string {
	return filepath.Join(os.Getenv("CREDENTIALS_DIRECTORY"), name)
}
