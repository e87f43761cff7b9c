package api

import (
	"context"
	"errors"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// ErrPluginNotFound is returned by Plugins.Check when a plugin does not exist.
var ErrPluginNotFound = errors.New("plugin not found")

// Store holds the desired state of all pipelines.
type Store interface {
	// Declarations returns all desired state, withdrawn pipelines included, by id.
	Declarations(ctx context.Context) ([]spec.Declaration, error)
	// Get returns the desired state of a pipeline, withdrawn or not, or an error that is spec.ErrNotFound.
	Get(ctx context.Context, id string) (spec.Declaration, error)
	// ApplyIf performs c in one transaction if every pipeline named in expect is declared in that version
	// (spec.Declaration.Version). An empty version means that the pipeline is not declared or is withdrawn. Otherwise
	// ApplyIf changes nothing and returns an error that is spec.ErrConflict.
	ApplyIf(ctx context.Context, c *spec.Changes, expect map[string]string) error
	// SetOverride makes the pipeline run or stop regardless of its declaration, until the declaration changes. The
	// declared status ends an override.
	SetOverride(ctx context.Context, id string, status spec.Status) error
	// History returns the stored revisions of a pipeline, oldest first.
	History(ctx context.Context, id string) ([]spec.Revision, error)
	// Purge forgets the history and the events of a deleted pipeline. The error is spec.ErrNotFound when the pipeline
	// is unknown, and spec.ErrConflict when it is not deleted.
	Purge(ctx context.Context, id string) error
	// FileStates returns the states of the pipeline files, by path.
	FileStates(ctx context.Context) ([]spec.FileState, error)
	// Events returns up to limit events with an id above after, oldest first. When after is negative it returns the
	// newest events instead, also oldest first.
	Events(ctx context.Context, after int64, limit int) ([]spec.Event, error)
}

// states provides the observed state of pipelines.
type states interface {
	// State returns the state of a pipeline, and false when none has been observed.
	State(id string) (spec.State, bool)
}

// KnownPlugins provides the plugins of connectors and processors.
type KnownPlugins interface {
	// KnownPlugins describes all plugins, by name.
	Plugins() []rest.Plugin
	// Check lets a new instance of the plugin validate the settings, with references resolved, and tears it down. The
	// error is ErrPluginNotFound, contains a SettingError for every faulty setting, or says why the plugin refuses.
	Check(ctx context.Context, typ spec.ConnectorType, plugin string, settings map[string]string) error
	// Processors describes all processor plugins, by name.
	Processors() []rest.ProcessorPlugin
	// CheckProcessors returns the problems of processors: missing plugins (spec.CodeProcessorNotFound), settings and
	// conditions. at is the JSON pointer of the list.
	CheckProcessors(ctx context.Context, at string, declared []spec.Processor) []spec.Problem
}

// SettingError describes a problem with one setting. Check may join several.
type SettingError struct {
	Setting string
	Message string
}

// Error returns the setting and the message.
func (e *SettingError) Error() string { return "setting " + e.Setting + ": " + e.Message }

// maxID is the longest id of a pipeline, 256 characters, in bytes.
const maxID = 256 * utf8.UTFMax

// desired gives requests access to desired state. The exported fields must be set, before first use.
type desired struct {
	Store
	States  states
	Parser  spec.Parser // of pipelines in requests
	Plugins KnownPlugins

	unique sync.Mutex // held while changing values that must be unique among pipelines
}

// Declared returns the pipelines that are declared, by id.
func (s *desired) Declared(ctx context.Context) ([]spec.Declaration, error) {
	all, err := s.Declarations(ctx)
	if err != nil {
		return nil, err
	}
	kept := make([]spec.Declaration, 0, len(all))
	for _, d := range all {
		if d.Withdrawn.IsZero() {
			kept = append(kept, d)
		}
	}
	return kept, nil
}

// Pipeline returns the declaration of a pipeline.
func (s *desired) Pipeline(ctx context.Context, id string) (*spec.Declaration, error) {
	d, err := s.Get(ctx, id)
	switch {
	case errors.Is(err, spec.ErrNotFound), err == nil && !d.Withdrawn.IsZero():
		return nil, rest.Errorf(rest.NotFound, rest.ReasonPipelineNotFound, "pipeline %q not found", id).
			Suggest("GET /v1/pipelines lists the pipelines")
	case err != nil:
		return nil, err
	}
	return &d, nil
}

// Connector returns the declaration with a connector, and the index of the connector.
func (s *desired) Connector(ctx context.Context, id string) (d *spec.Declaration, at int, err error) {
	d, err = s.holder(ctx, id, func(d *spec.Declaration) bool {
		at = connectorIn(&d.Pipeline, id)
		return at >= 0 && d.Withdrawn.IsZero()
	})
	if d == nil && err == nil {
		err = connectorNotFound(id).
			Suggest("GET /v1/connectors lists the connectors; an id has the form <pipeline>:<connector>")
	}
	return d, at, err
}

// connectorNotFound returns the error for a connector that does not exist.
func connectorNotFound(id string) *rest.Error {
	return rest.Errorf(rest.NotFound, rest.ReasonConnectorNotFound, "connector %q not found", id)
}

// Processor returns the declaration with a processor, and the place of the processor.
func (s *desired) Processor(ctx context.Context, id string) (d *spec.Declaration, c processorChain, at int, err error) {
	d, err = s.holder(ctx, id, func(d *spec.Declaration) (ok bool) {
		c, at, ok = processorIn(&d.Pipeline, id)
		return ok && d.Withdrawn.IsZero()
	})
	if d == nil && err == nil {
		err = processorNotFound(id).Suggest("GET /v1/processors lists the processors")
	}
	return d, c, at, err
}

// processorNotFound returns the error for a processor that does not exist.
func processorNotFound(id string) *rest.Error {
	return rest.Errorf(rest.NotFound, rest.ReasonProcessorNotFound, "processor %q not found", id)
}

// holder returns the pipeline for which has reports true, nil if there is none. Ids may contain colons, so several
// pipelines may match the qualified id.
func (s *desired) holder(ctx context.Context, id string, has func(*spec.Declaration) bool) (*spec.Declaration, error) {
	for i := range min(len(id), maxID) {
		if id[i] != ':' {
			continue
		}
		d, err := s.Get(ctx, id[:i])
		switch {
		case errors.Is(err, spec.ErrNotFound):
		case err != nil:
			return nil, err
		case has(&d):
			return &d, nil
		}
	}
	return nil, nil
}

// The observation points of a processor: its input, and its output. For a destination, InspectIn observes the input of
// its processors.
const (
	InspectIn  = "/in"
	InspectOut = "/out"
)

// Forgotten reports whether no connector has this id, not even in a pipeline that its file withdrew and may bring back.
//
// The id of an observed point that is not a connector ends in InspectIn or InspectOut.
func (s *desired) Forgotten(id string) bool {
	holds := func(d *spec.Declaration) bool { return connectorIn(&d.Pipeline, id) >= 0 }
	for _, side := range []string{InspectIn, InspectOut} {
		if observed, ok := strings.CutSuffix(id, side); ok {
			id = observed
			holds = func(d *spec.Declaration) bool {
				_, _, ok := processorIn(&d.Pipeline, observed)
				return ok || connectorIn(&d.Pipeline, observed) >= 0
			}
		}
	}
	d, err := s.holder(context.Background(), id, holds)
	return d == nil && err == nil
}
