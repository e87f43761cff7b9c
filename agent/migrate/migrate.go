// Package migrate migrates pipelines and positions from Conduit: from the SQLite file with its state, or from the REST
// API of a running Conduit.
package migrate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/texts"
)

// Found is the data found in a Conduit.
type Found struct {
	Pipelines   []spec.Pipeline       // normalized, by id; all are declared stopped
	Running     map[string]bool       // ids of pipelines that ran or should run
	Checkpoints []spec.Checkpoint     // of sources of stopped pipelines
	Started     []spec.ConnectorState // connectors that were ever started
	Notes       []string              // items without an equivalent here, or that could not be read
	Unset       []Unset               // settings with unknown values
}

// Unset is a setting with an unknown value: it is declared as a reference to a variable with this name, which the user
// must set.
type Unset struct{ Variable, Setting, Connector string }

func (f *Found) note(format string, args ...any) {
	f.Notes = append(f.Notes, fmt.Sprintf(format, args...))
}

// finish completes the data: redacted settings come from the pipeline with the same id in files, or become references.
// Other settings remain literal values: text in the form of a reference is escaped.
func (f *Found) finish(files []spec.Pipeline) {
	sort.Slice(f.Pipelines, func(i, j int) bool { return f.Pipelines[i].ID < f.Pipelines[j].ID })
	sort.Slice(f.Checkpoints, func(i, j int) bool { return f.Checkpoints[i].ConnectorID < f.Checkpoints[j].ConnectorID })
	for i := range f.Pipelines {
		p := &f.Pipelines[i]
		j := slices.IndexFunc(files, func(o spec.Pipeline) bool { return o.ID == p.ID })
		known := &spec.Pipeline{}
		if j >= 0 {
			known = &files[j]
		}
		f.fill(p, known)
		spec.Normalize(p)
		p.Status = spec.StatusStopped
	}
	for i := range f.Started {
		s := &f.Started[i]
		for j := range f.Pipelines {
			p := &f.Pipelines[j]
			k := slices.IndexFunc(p.Connectors, func(c spec.Connector) bool { return p.QualifiedID(c.ID) == s.ID })
			if k >= 0 && s.Active == nil {
				s.Active = p.Connectors[k].Settings
			}
		}
	}
}

// fill replaces redacted settings of p by those of known, or by references.
func (f *Found) fill(p, known *spec.Pipeline) {
	for i := range p.Connectors {
		c := &p.Connectors[i]
		var from spec.Connector
		if j := slices.IndexFunc(known.Connectors, func(o spec.Connector) bool { return o.ID == c.ID }); j >= 0 {
			from = known.Connectors[j]
		}
		f.settings(c.Settings, from.Settings, p.QualifiedID(c.ID))
		f.processors(c.Processors, from.Processors, p.QualifiedID(c.ID))
	}
	f.processors(p.Processors, known.Processors, p.ID)
	f.settings(p.DeadLetterQueue.Settings, known.DeadLetterQueue.Settings, p.ID+":dead-letter-queue")
}

func (f *Found) processors(all, known []spec.Processor, owner string) {
	for i := range all {
		var from spec.Processor
		if j := slices.IndexFunc(known, func(o spec.Processor) bool { return o.ID == all[i].ID }); j >= 0 {
			from = known[j]
		}
		f.settings(all[i].Settings, from.Settings, owner+":"+all[i].ID)
	}
}

func (f *Found) settings(settings, known map[string]string, owner string) {
	for _, name := range sorted(settings) {
		if settings[name] != spec.Redacted {
			settings[name] = spec.EscapeReferences(settings[name])
			continue
		}
		if value, ok := known[name]; ok {
			settings[name] = value
			continue
		}
		variable := f.variable(owner + "_" + name)
		settings[name] = "${" + variable + "}"
		f.Unset = append(f.Unset, Unset{variable, name, owner})
	}
}

// variable returns the name of an environment variable, made from text, that no other setting has.
func (f *Found) variable(text string) string {
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, text)
	if plain[0] >= '0' && plain[0] <= '9' { // a UUID; names of variables do not begin with a digit
		plain = "_" + plain
	}
	name := plain
	for n := 2; slices.ContainsFunc(f.Unset, func(u Unset) bool { return u.Variable == name }); n++ {
		name = fmt.Sprintf("%s_%d", plain, n)
	}
	return name
}

// Owner selects the owner of the pipelines: the API, or the files named after them.
type Owner struct{ Files bool }

// Write writes everything into the store at path, which it creates if it does not exist. It writes nothing if a
// pipeline exists there already.
func (f *Found) Write(ctx context.Context, path string, owner Owner) (err error) {
	db, err := store.Open(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, db.Close()) }()
	changes := &spec.Changes{}
	for i := range f.Pipelines {
		p := &f.Pipelines[i]
		if _, err := db.Get(ctx, p.ID); err == nil {
			return fmt.Errorf("cannot take over pipeline %q: the store has a pipeline with this id; delete one of the "+
				"two first", p.ID)
		}
		declare := spec.Declare{Pipeline: *p, Owner: spec.Owner{Kind: spec.OwnerAPI}, Origin: "conduit migrate"}
		if owner.Files {
			declare.Owner = spec.Owner{Kind: spec.OwnerFile, Path: FileName(p.ID), Line: 1}
		}
		changes.Declare = append(changes.Declare, declare)
	}
	// Positions come first: a pipeline without its position would read everything again.
	if err := f.writePositions(ctx, db); err != nil {
		return err
	}
	return db.Apply(ctx, changes)
}

func (f *Found) writePositions(ctx context.Context, db *store.DB) error {
	checkpoints, epochs := slices.Clone(f.Checkpoints), map[string]int64{}
	for i := range checkpoints {
		c := &checkpoints[i]
		if epochs[c.PipelineID] == 0 {
			epoch, err := db.BeginRun(ctx, c.PipelineID)
			if err != nil {
				return err
			}
			epochs[c.PipelineID] = epoch
		}
		c.Epoch, c.Sequence = epochs[c.PipelineID], 1
	}
	if err := db.SaveCheckpoints(ctx, checkpoints); err != nil {
		return fmt.Errorf("cannot save positions: %w", err)
	}
	for i := range f.Started {
		if err := db.SaveConnectorState(ctx, &f.Started[i]); err != nil {
			return err
		}
	}
	return nil
}

// FileName returns the name of the file that declares pipeline id.
func FileName(id string) string { return texts.PathElement(id) + ".yaml" }

func sorted(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
