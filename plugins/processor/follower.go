package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// follower updates the schema that a record names to the shape that processors gave the record. It caches its findings
// per shape.
type follower struct {
	known   map[named][]knownShape
	off     map[named]bool // it had a shape that no schema can describe: unknown shapes lose their schema
	scratch []byte
}

// named is a version of a schema as the metadata names it.
type named struct{ subject, version string }

// knownShape is a shape of objects that name a schema, and the version of the subject that fits the shape.
type knownShape struct {
	shape   *schema.Shape
	version string
}

// maxShapes bounds the shapes cached for one version of a schema, and maxNamed the versions.
const (
	maxShapes = 64
	maxNamed  = 1024
)

func (f *follower) follow(
	ctx context.Context, schemas *schema.Cache, log *slog.Logger, parts schema.Parts, progress *sdk.Progress,
	records []record.Record,
) error {
	progress.Start(len(records))
	defer progress.End()
	for i := range records {
		progress.Turn(i)
		r := &records[i]
		if len(r.Metadata) == 0 {
			continue
		}
		if m, ok := r.Key.Structured(); ok && parts.Key {
			if err := f.part(ctx, schemas, log, r, m, nil, record.KeyKeySchemaSubject,
				record.KeyKeySchemaVersion); err != nil {
				return fmt.Errorf("cannot register the schema of the key: %w", err)
			}
		}
		if !parts.Payload {
			continue
		}
		m, ok := r.After.Structured()
		other, hasOther := r.Before.Structured()
		if !ok {
			m, other = other, nil
		}
		if ok || hasOther {
			if err := f.part(ctx, schemas, log, r, m, other, record.KeyPayloadSchemaSubject,
				record.KeyPayloadSchemaVersion); err != nil {
				return fmt.Errorf("cannot register the schema of the payload: %w", err)
			}
		}
	}
	return nil
}

// part makes the metadata of r name a version that fits m, and also other if it is not nil.
func (f *follower) part(
	ctx context.Context, schemas *schema.Cache, log *slog.Logger, r *record.Record, m, other map[string]any, subjectKey,
	versionKey string,
) error {
	n := named{r.Metadata.Get(subjectKey), r.Metadata.Get(versionKey)}
	if n.subject == "" || n.version == "" {
		return nil
	}
	known := f.known[n]
	i := slices.IndexFunc(known, func(k knownShape) bool {
		return k.shape.Fits(m) && (other == nil || k.shape.Fits(other))
	})
	if i < 0 && !f.off[n] {
		k, err := f.learn(ctx, schemas, n, m, other)
		switch {
		case errors.Is(err, errNoSchema):
			log.Warn("records are sent without a schema: no schema can describe them after the processors",
				"component", "processor", "subject", n.subject, "err", err)
			f.turnOff(n)
		case err != nil:
			return err
		default:
			known, i = f.remember(n, k), 0
		}
	}
	if i < 0 {
		r.Metadata.Delete(subjectKey)
		r.Metadata.Delete(versionKey)
	} else if version := known[i].version; version != n.version {
		r.Metadata.Set(versionKey, version)
	}
	return nil
}

// errNoSchema reports that no schema can describe an object.
var errNoSchema = errors.New("no schema can describe the record")

func (f *follower) turnOff(n named) {
	if f.off == nil || len(f.off) >= maxNamed {
		f.off = map[named]bool{}
	}
	f.off[n] = true
}

func (f *follower) remember(n named, k knownShape) []knownShape {
	if f.known == nil || len(f.known) >= maxNamed && f.known[n] == nil {
		f.known = map[named][]knownShape{}
	}
	known := f.known[n]
	if len(known) >= maxShapes {
		known = known[:maxShapes-1]
	}
	f.known[n] = append([]knownShape{k}, known...)
	return f.known[n]
}

// learn finds the version for a shape: the named version if it fits, otherwise the version of an inferred schema, which
// it registers. A shape with the same fields as a known one widens the known one, so that values that are sometimes nil
// do not create many schemas.
func (f *follower) learn(
	ctx context.Context, schemas *schema.Cache, n named, m, other map[string]any,
) (knownShape, error) {
	fits, err := f.fits(ctx, schemas, n, m, other)
	if err != nil {
		return knownShape{}, err
	}
	shape := &schema.Shape{}
	for _, k := range f.known[n] {
		if (k.version == n.version) == fits && k.shape.SameFields(m) {
			shape = k.shape
			break
		}
	}
	shape, err = shape.With(m)
	if err == nil && other != nil {
		shape, err = shape.With(other)
	}
	if err != nil {
		return knownShape{}, fmt.Errorf("%w: %w", errNoSchema, err)
	}
	if fits {
		return knownShape{shape, n.version}, nil
	}
	s, err := schemas.Create(ctx, n.subject, schema.TypeAvro, shape.Avro())
	if errors.Is(err, schema.ErrInvalidSchema) {
		return knownShape{}, fmt.Errorf("%w: %w", errNoSchema, err)
	}
	if err != nil {
		return knownShape{}, fmt.Errorf("%s: %w", n.subject, err)
	}
	return knownShape{shape, strconv.Itoa(s.Version)}, nil
}

// fits reports whether the named version can encode the objects.
func (f *follower) fits(ctx context.Context, schemas *schema.Cache, n named, objects ...map[string]any) (bool, error) {
	version, err := strconv.Atoi(n.version)
	if err != nil {
		return false, nil
	}
	codec, err := schemas.Codec(ctx, n.subject, version)
	if errors.Is(err, schema.ErrSubjectNotFound) || errors.Is(err, schema.ErrVersionNotFound) ||
		errors.Is(err, schema.ErrInvalidSchema) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot get version %d of schema %q: %w", version, n.subject, err)
	}
	for _, m := range objects {
		if m == nil {
			continue
		}
		if f.scratch, err = codec.Append(f.scratch[:0], m); err != nil {
			return false, nil
		}
	}
	return true, nil
}
