// Package reference resolves the references ${...} in the settings of pipelines, and has a
// pipeline applied again when a file that it refers to changes.
package reference

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/conduit-agent/conduit/agent/redact"
	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
	"github.com/conduit-agent/conduit/spec/ref"
)

// Resolver resolves references, and remembers which files the settings of each pipeline took
// values from: digests only, in memory only. Set the exported fields, then call Run.
type Resolver struct {
	// Apply has a pipeline take effect again. Run calls it when a referenced file changed.
	Apply func(ctx context.Context, pipelineID string) error
	Log   *slog.Logger
	// AllowFile, AllowCredential and AllowEnv return why a reference may not lead to one; nil allows all.
	AllowFile       func(path string) error
	AllowEnv        func(name string) error
	AllowCredential func(name string) error
	Watch           watch.Trigger // says when to scan the files; Run sets its times

	once  sync.Once
	wake  notify.Signal // other files are in use
	reads reads

	mu   sync.Mutex
	used map[string]*files // by pipeline; guarded by mu; values are replaced, never modified

	observed map[string]*observation // by path; owned by Run
}

func (r *Resolver) init() { r.once.Do(func() { r.wake = notify.NewSignal() }) }

// Resolution is a version of a pipeline with its references resolved.
type Resolution struct {
	Pipeline *spec.Pipeline
	Secrets  redact.Redactor // knows what the references led to, and the secret settings

	// Hopeless says that some reference cannot be resolved by trying again: a variable is not
	// set, say. A file may yet be written, and a file system may answer again.
	Hopeless bool

	files map[string]digest // that values were taken from
}

// Resolve resolves the references of a pipeline that is about to run. The files that it takes
// values from are watched from then on.
func (r *Resolver) Resolve(ctx context.Context, d *spec.Declaration) (*Resolution, []spec.Problem) {
	resolved := &Resolution{files: map[string]digest{}}
	find := r.reads.lookup(ctx, r.AllowFile)
	find.AllowEnv = r.AllowEnv
	lookup := find
	lookup.Found = resolved.Secrets.Add
	unread := 0 // each is one problem, that another try may mend
	lookup.File = allowed(r.AllowFile, func(path string) (string, error) {
		text, err := note(resolved.files, path, path, find.File)
		if err != nil {
			unread++
		}
		return text, err
	})
	lookup.Credential = allowed(r.AllowCredential, func(name string) (string, error) {
		text, err := note(resolved.files, credentialPath(name), name, find.Credential)
		if errors.Is(err, errTimeout) {
			unread++
		}
		return text, err
	})
	var problems []spec.Problem
	resolved.Pipeline, problems = spec.Resolve(&d.Pipeline, lookup)
	resolved.Hopeless = len(problems) > unread
	if resolved.Pipeline != nil {
		for _, settings := range resolved.Pipeline.EachSettings() {
			resolved.Secrets.AddSettings(settings)
		}
	}
	r.tried(d.Pipeline.ID, d.Generation, resolved.files)
	return resolved, problems
}

// note reads name and notes the digest of what is at path, the zero digest if it cannot be
// read.
func note(files map[string]digest, path, name string, read func(string) (string, error)) (string, error) {
	text, err := read(name)
	files[path] = digest{}
	if err == nil {
		files[path] = sha256.Sum256([]byte(text))
	}
	return text, err
}

// Lookup finds what references stand for, until ctx ends. How long each may take is bounded.
func (r *Resolver) Lookup(ctx context.Context) ref.Lookup {
	l := r.reads.lookup(ctx, r.AllowFile)
	l.AllowEnv = r.AllowEnv
	l.File, l.Credential = allowed(r.AllowFile, l.File), allowed(r.AllowCredential, l.Credential)
	return l
}

// allowed returns find for what allow returns no error for.
func allowed(allow func(string) error, find func(string) (string, error)) func(string) (string, error) {
	if allow == nil {
		return find
	}
	return func(name string) (string, error) {
		if err := allow(name); err != nil {
			return "", err
		}
		return find(name)
	}
}

// Settings resolves the references in the settings of one connector, and adds what they led
// to, and what is secret without them, to secrets. Problems have the paths of a pipeline with these settings in its first
// connector.
func (r *Resolver) Settings(ctx context.Context, settings map[string]string, secrets *redact.Redactor) (map[string]string, []spec.Problem) {
	p := &spec.Pipeline{Connectors: []spec.Connector{{Settings: settings}}}
	lookup := r.Lookup(ctx)
	lookup.Found = secrets.Add
	resolved, problems := spec.Resolve(p, lookup)
	if len(problems) > 0 {
		return nil, problems
	}
	secrets.AddSettings(resolved.Connectors[0].Settings)
	return resolved.Connectors[0].Settings, nil
}

// Recall resolves settings of an earlier version. What they refer to may be gone: then a
// setting is empty, and its name in lost. What the references led to is added to secrets, and
// so is what is secret without them.
func (r *Resolver) Recall(settings map[string]string, secrets *redact.Redactor) (resolved map[string]string, lost []string) {
	resolved = map[string]string{}
	for name, value := range settings {
		one, problems := r.Settings(context.Background(), map[string]string{name: value}, secrets)
		if len(problems) > 0 {
			lost = append(lost, name)
		}
		resolved[name] = one[name]
	}
	slices.Sort(lost)
	return resolved, lost
}
