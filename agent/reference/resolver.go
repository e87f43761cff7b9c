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
	// Kinds are the kinds of references that exist.
	Kinds  spec.ReferenceKinds
	Access spec.ReferenceAccess
	Watch  watch.Trigger // triggers scans of the files; Run sets its times

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

	// Permanent says that a retry cannot resolve some reference, for example because a variable is not set. A missing
	// file may still be written, and a file system may respond again.
	Permanent bool

	files map[string]digest // from which values were taken
}

// Resolve resolves the references of a pipeline that is about to run. It watches the files that supply values from
// then on.
func (r *Resolver) Resolve(ctx context.Context, d *spec.Declaration) (*Resolution, []spec.Problem) {
	resolved := &Resolution{files: map[string]digest{}}
	lookup := r.Lookup(ctx)
	lookup.Found = resolved.Secrets.Add
	unread := 0 // each is one problem that a retry may fix
	lookup.Read = func(kind *spec.ReferenceKind, argument string) (string, error) {
		if err := r.allowed(kind, argument); err != nil {
			return "", err
		}
		text, err := r.read(ctx, kind, argument)
		if kind.File != nil {
			resolved.record(kind.File(argument), text, err)
		}
		if err != nil && (kind.Retry || errors.Is(err, errTimeout)) {
			unread++
		}
		return text, err
	}
	var problems []spec.Problem
	resolved.Pipeline, problems = spec.Resolve(&d.Pipeline, lookup)
	resolved.Permanent = len(problems) > unread
	if resolved.Pipeline != nil {
		for _, settings := range resolved.Pipeline.EachSettings() {
			resolved.Secrets.AddSettings(settings)
		}
	}
	r.recordTried(d.Pipeline.ID, d.Generation, resolved.files)
	return resolved, problems
}

// record records the digest of the content of the file at path, the zero digest if it cannot be read.
func (r *Resolution) record(path, content string, err error) {
	r.files[path] = digest{}
	if err == nil {
		r.files[path] = sha256.Sum256([]byte(content))
	}
}

// Lookup returns a function that resolves references, until ctx ends. The time for each reference is bounded.
func (r *Resolver) Lookup(ctx context.Context) spec.Lookup {
	return spec.Lookup{Kinds: r.Kinds, Read: func(kind *spec.ReferenceKind, argument string) (string, error) {
		if err := r.allowed(kind, argument); err != nil {
			return "", err
		}
		return r.read(ctx, kind, argument)
	}}
}

// allowed returns the reason why a pipeline may not refer to argument.
func (r *Resolver) allowed(kind *spec.ReferenceKind, argument string) error {
	if kind.Allowed == nil {
		return nil
	}
	return kind.Allowed(argument, r.Access)
}

func (r *Resolver) read(ctx context.Context, kind *spec.ReferenceKind, argument string) (string, error) {
	if kind.Early {
		return kind.Read(ctx, argument, r.Access)
	}
	return within(ctx, &r.reads, readTimeout, kind.Name+" "+argument, func() (string, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		return kind.Read(ctx, argument, r.Access)
	})
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
