package sdk

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
)

// extractor infers the schemas of structured records, registers them, and names them in the metadata. It does not
// encode the records; that happens where they leave the process.
type extractor struct {
	registry     schema.Registry
	context      string
	log          *slog.Logger
	key, payload *extraction // nil if switched off
}

// extraction holds the known schemas of keys, or of payloads.
type extraction struct {
	name                   string // last part of the subjects
	subjectKey, versionKey string
	subjects               map[string]*subject // by collection
	last                   *subject            // subject of the previous record
}

type subject struct {
	collection string
	name       string
	known      []knownShape // most recently used first
	off        bool         // records of this subject get no schema
}

type knownShape struct {
	shape   *schema.Shape
	version string
}

// maxShapes limits the schemas per subject that a run remembers. Without it a source with generated field names would
// fill the registry.
const maxShapes = 64

// newExtractor returns nil if there is nothing to extract, or no registry.
func newExtractor(env *Env, o sourceOptions) *extractor {
	if env.Schemas == nil || !o.PayloadEnabled && !o.KeyEnabled {
		return nil
	}
	e := &extractor{registry: env.Schemas, log: env.Logger}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if o.ContextEnabled {
		if e.context = o.ContextName; e.context == "" {
			e.context, _, _ = strings.Cut(env.ConnectorID, "/") // the same in all instances of a pipeline
		}
	}
	if o.KeyEnabled {
		e.key = &extraction{name: o.KeySubject, subjectKey: record.KeyKeySchemaSubject,
			versionKey: record.KeyKeySchemaVersion}
	}
	if o.PayloadEnabled {
		e.payload = &extraction{name: o.PayloadSubject, subjectKey: record.KeyPayloadSchemaSubject,
			versionKey: record.KeyPayloadSchemaVersion}
	}
	return e
}

// attach names the schemas of the records in their metadata.
func (e *extractor) attach(ctx context.Context, records []record.Record) error {
	for i := range records {
		r := &records[i]
		if e.key != nil {
			if m, ok := r.Key.Structured(); ok {
				if err := e.attachPart(ctx, e.key, &r.Metadata, m, nil); err != nil {
					return fmt.Errorf("cannot register the schema of the key: %w", err)
				}
			}
		}
		if e.payload == nil {
			continue
		}
		after, ok := r.After.Structured()
		before, hasBefore := r.Before.Structured()
		if !ok {
			after, before = before, nil
		}
		if ok || hasBefore {
			if err := e.attachPart(ctx, e.payload, &r.Metadata, after, before); err != nil {
				return fmt.Errorf("cannot register the schema of the payload: %w", err)
			}
		}
	}
	return nil
}

// attachPart names the schema that fits m, and also other unless that is nil. A schema that the connector has named
// stays.
func (e *extractor) attachPart(ctx context.Context, x *extraction, md *record.Metadata, m, other map[string]any) error {
	if md.Get(x.subjectKey) != "" {
		return nil
	}
	s := e.subject(x, md.Get(record.KeyCollection))
	if !s.find(m, other) && !s.off {
		if err := e.learn(ctx, s, m, other); err != nil {
			return err
		}
	}
	if s.off {
		return nil
	}
	*md = slices.Grow(*md, 2)
	md.Set(x.subjectKey, s.name)
	md.Set(x.versionKey, s.known[0].version)
	return nil
}

func (e *extractor) subject(x *extraction, collection string) *subject {
	if x.last != nil && x.last.collection == collection {
		return x.last
	}
	s := x.subjects[collection]
	if s == nil {
		s = &subject{collection: collection, name: schema.Subject(e.context, collection, x.name)}
		if x.subjects == nil {
			x.subjects = map[string]*subject{}
		}
		x.subjects[collection] = s
	}
	x.last = s
	return s
}

// find moves the matching shape to the front, and reports whether there is one.
func (s *subject) find(m, other map[string]any) bool {
	for i := range s.known {
		if k := s.known[i]; k.shape.Fits(m) && (other == nil || k.shape.Fits(other)) {
			if i > 0 {
				copy(s.known[1:], s.known[:i])
				s.known[0] = k
			}
			return true
		}
	}
	return false
}

// learn registers a matching shape. A known shape with the same fields is widened, so that values that are sometimes
// nil need a single schema, not a schema for every combination.
func (e *extractor) learn(ctx context.Context, s *subject, m, other map[string]any) error {
	i := slices.IndexFunc(s.known, func(k knownShape) bool {
		return k.shape.SameFields(m) && (other == nil || k.shape.SameFields(other))
	})
	shape := &schema.Shape{}
	if i >= 0 {
		shape = s.known[i].shape
	}
	shape, err := shape.With(m)
	if err == nil && other != nil {
		shape, err = shape.With(other)
	}
	if err == nil && i < 0 && len(s.known) == maxShapes {
		err = fmt.Errorf("more than %d different sets of fields", maxShapes)
	}
	if err != nil {
		s.off, s.known = true, nil
		e.log.WarnContext(ctx, "sending records without a schema", "subject", s.name, "err", err)
		return nil
	}
	registered, err := e.registry.Create(ctx, s.name, schema.TypeAvro, shape.Avro())
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	if i >= 0 {
		s.known = slices.Delete(s.known, i, i+1)
	}
	s.known = append([]knownShape{{shape, strconv.Itoa(registered.Version)}}, s.known...)
	return nil
}
