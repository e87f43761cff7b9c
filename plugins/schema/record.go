package schema

import (
	"context"
	"fmt"
	"strconv"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Subject returns the name under which the schema of a source's keys or payloads is registered:
// context:collection.name, without empty parts. name is "key" or "payload" unless the settings specify another one.
func Subject(context, collection, name string) string {
	if collection != "" {
		name = collection + "." + name
	}
	if context != "" {
		name = context + ":" + name
	}
	return name
}

// Parts selects parts of a record. Payload stands for both Before and After.
type Parts struct {
	Key, Payload bool
}

// EncodeRecord replaces the structured parts of r by raw data, encoded with the schemas named in the metadata. A part
// without a schema stays unchanged. On error r is unchanged.
func (c *Cache) EncodeRecord(ctx context.Context, r *record.Record, parts Parts) error {
	return c.convert(ctx, r, parts, func(codec *Codec, d record.Data) (record.Data, error) {
		m, ok := d.Structured()
		if !ok {
			return d, nil
		}
		b, err := codec.Append([]byte{}, m)
		return record.Raw(b), err
	})
}

// DecodeRecord replaces the raw parts of r by structured data, decoded with the schemas named in the metadata. A part
// without a schema stays unchanged. On error r is unchanged.
func (c *Cache) DecodeRecord(ctx context.Context, r *record.Record, parts Parts) error {
	_, err := c.DecodeRecordWithin(ctx, r, parts, maxDecoded)
	return err
}

// DecodeRecordWithin is DecodeRecord with a memory limit for the decoded parts in bytes. It also returns the memory of
// the decoded parts.
func (c *Cache) DecodeRecordWithin(ctx context.Context, r *record.Record, parts Parts, limit int) (memory int,
	err error) {
	err = c.convert(ctx, r, parts, func(codec *Codec, d record.Data) (record.Data, error) {
		b, ok := d.Raw()
		if !ok {
			return d, nil
		}
		m, n, err := codec.DecodeWithin(b, limit-memory)
		memory += n
		return record.Structured(m), err
	})
	return memory, err
}

type conversion func(*Codec, record.Data) (record.Data, error)

func (c *Cache) convert(ctx context.Context, r *record.Record, parts Parts, f conversion) error {
	key, before, after := r.Key, r.Before, r.After
	if parts.Key && !key.IsNone() {
		codec, err := c.named(ctx, r.Metadata, record.KeyKeySchemaSubject, record.KeyKeySchemaVersion)
		if err != nil {
			return err
		}
		if err := apply(codec, f, &key); err != nil {
			return fmt.Errorf("key: %w", err)
		}
	}
	if parts.Payload && !(before.IsNone() && after.IsNone()) {
		codec, err := c.named(ctx, r.Metadata, record.KeyPayloadSchemaSubject, record.KeyPayloadSchemaVersion)
		if err != nil {
			return err
		}
		if err := apply(codec, f, &before); err != nil {
			return fmt.Errorf("payload.before: %w", err)
		}
		if err := apply(codec, f, &after); err != nil {
			return fmt.Errorf("payload.after: %w", err)
		}
	}
	r.Key, r.Before, r.After = key, before, after
	return nil
}

func apply(codec *Codec, f conversion, d *record.Data) (err error) {
	if codec != nil {
		*d, err = f(codec, *d)
	}
	return err
}

// named returns the codec of the schema named in the metadata, or nil if there is none.
func (c *Cache) named(ctx context.Context, m record.Metadata, subjectKey, versionKey string) (*Codec, error) {
	subject, version := m.Get(subjectKey), m.Get(versionKey)
	if subject == "" || version == "" {
		return nil, nil
	}
	n, err := strconv.Atoi(version)
	if err != nil {
		return nil, fmt.Errorf("cannot parse version %q of schema %q: it is not a number", version, subject)
	}
	codec, err := c.Codec(ctx, subject, n)
	if err != nil {
		return nil, fmt.Errorf("cannot get version %d of schema %q: %w", n, subject, err)
	}
	return codec, nil
}
