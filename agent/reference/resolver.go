// Package reference resolves the references ${...} in the settings of pipelines, and applies a pipeline again when a
// file that it refers to changes.
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
)

// Resolver resolves references, and records from which files the settings of each pipeline took values: digests only,
// in memory only. Set the exported fields, then call Run.
type Resolver struct {
	// Apply applies a pipeline again. Run calls it when a referenced file has changed.
	Apply func(ctx context.Context, pipelineID string) error
	Log   *slog.Logger
	// AllowFile, AllowCredential and AllowEnv return the reason why a reference may not lead to a file, credential or
	// variable; nil allows all.
	AllowFile       func(path string) error
	AllowEnv        func(name string) error
	AllowCredential func(name string) error
	Watch           watch.Trigger // triggers scans of the files; Run sets its times

	once  sync.Once
	wake  notify.Signal // the set of files in use has changed
	reads reads

	mu   sync.Mutex
	used map[string]*files // by pipeline; guarded by mu; values are replaced, never modified

	observed map[string]*observation // by path; owned by Run
}

func (r *Resolver) init() { r.once.Do(func() { r.wake = notify.NewSignal() }) }

// Resolution is a version of a pipeline with its references resolved.
type Resolution struct {
	Pipeline *spec.Pipeline
	Secrets  redact.Redactor // knows the values of the references, and the secret settings

	// Hopeless says that a retry cannot resolve some reference, for example because a variable is not set. A missing
	// file may still be written, and a file system may respond again.
	Hopeless bool

	files map[string]digest // from which values were taken
}

// Resolve resolves the references of a pipeline that is about to run. It watches the files that supply values from
// then on.
func (r *Resolver) Resolve(ctx context.Context, d *spec.Declaration) (*Resolution, []spec.Problem) {
	resolved := &Resolution{files: map[string]digest{}}
	find := r.reads.lookup(ctx, r.AllowFile)
	find.AllowEnv = r.AllowEnv
	lookup := find
	lookup.Found = resolved.Secrets.Add
	unread := 0 // each is one problem that a retry may fix
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

// note reads name and records the digest of the file at path, the zero digest if it cannot be read.
func note(files map[string]digest, path, name string, read func(string) (string, error)) (string, error) {
	text, err := read(name)
	files[path] = digest{}
	if err == nil {
		files[path] = sha256.Sum256([]byte(text))
	}
	return text, err
}

// Lookup returns a function that resolves references, until ctx ends. The time for each reference is bounded.
func (r *Resolver) Lookup(ctx context.Context) spec.Lookup {
	l := r.reads.lookup(ctx, r.AllowFile)
	l.AllowEnv = r.AllowEnv
	l.File, l.Credential = allowed(r.AllowFile, l.File), allowed(r.AllowCredential, l.Credential)
	return l
}

// allowed returns find, restricted to names for which allow returns no error.
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

// Settings resolves the references in the settings of one connector, and adds their values, and secrets outside
// references, to secrets. Problems have the paths of a pipeline with these settings in its first connector.
func (r *Resolver) Settings(
	ctx context.Context, settings map[string]string, secrets *redact.Redactor,
) (map[string]string, []spec.Problem) {
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

// Recall resolves settings of an earlier version. It empties a setting whose references cannot be resolved any more,
// and adds its name to lost. It adds the values of references, and secrets outside references, to secrets.
func (r *Resolver) Recall(
	settings map[string]string, secrets *redact.Redactor,
) (resolved map[string]string, lost []string) {
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
