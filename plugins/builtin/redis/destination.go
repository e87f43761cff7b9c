package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
)

type destinationSettings struct {
	serverSettings

	// Type of the target: a stream (XADD), a list (RPUSH), a channel (PUBLISH), or a key for each record: a string
	// (SET), a hash (HSET), or a key to delete (DEL).
	Type string `json:"type" default:"stream" validate:"inclusion=stream|list|pubsub|string|hash|delete"`
	// Stream, list, channel or key, or a template for it, such as orders:{{ .Metadata.region }}.
	Key string `json:"key" template:"true" validate:"required"`
	// Template of a string. Empty: the record, in the format of sdk.record.format.
	Value string `json:"value" template:"true"`
	// Template of the hash field with this name; other fields stay as they are. Without any, the hash has exactly the
	// fields of the payload.
	Fields map[string]string `json:"fields.*" template:"true"`
	// Time after which a string or a hash expires, such as 30m, or a template for it. Empty: never.
	Expire string `json:"expire" template:"true"`
	// Field of a stream entry that contains the record, in the format of sdk.record.format.
	Field string `json:"field" literal:"true" default:"record"`
	// Approximate number of stream entries to keep. 0: all.
	MaxLength int64 `json:"maxLength" default:"0" validate:"gt=-1"`
	// Name of a list, to which digits derived from the connector's id are appended. The transaction that writes records
	// also stores their positions in it, for exactly-once delivery on one node. Empty: at least once.
	Positions string `json:"positionKey" literal:"true"`
	// Time for which connecting and writing are retried. After that the pipeline fails and is restarted with backoff.
	RetryFor time.Duration `json:"retry.timeout" default:"1m" validate:"gt=-1"`
}

func (s *destinationSettings) check() error {
	if s.Type == "pubsub" && s.Positions != "" {
		return sdk.SettingError{Setting: "positionKey",
			Message: "needs another type: published messages are not stored"}
	}
	if s.Type != "stream" && s.MaxLength > 0 {
		return sdk.SettingError{Setting: "maxLength", Message: "needs type stream"}
	}
	return s.serverSettings.check()
}

// Destination writes records with a script. The script stops at the first record that the server refuses, and saves the
// positions in the same transaction.
type Destination struct {
	sdk.DestinationBase

	settings  destinationSettings
	key       *template.Template
	keyed     *keyed // nil unless each record is written to its own key
	timeLimit template.TimeLimit
	conn      redis.Conn // nil when not connected
	once      *once      // nil with at-least-once delivery
}

// Parameters returns the descriptions of the settings.
func (d *Destination) Parameters() sdk.Parameters {
	return sdk.Described(destinationSettings{}, descriptions+common.Descriptions)
}

// Configure validates and stores the settings.
func (d *Destination) Configure(_ context.Context, values map[string]string) error {
	return common.ParseSettings(values, &d.settings, func() (err error) {
		if d.key, err = common.ParseTemplate("key", d.settings.Key, nil); err != nil {
			return err
		}
		if d.keyed, err = newKeyed(&d.settings); err != nil {
			return err
		}
		return d.settings.check()
	})
}

// Open prepares the destination. Write connects.
func (d *Destination) Open(ctx context.Context) error {
	if d.settings.Positions != "" {
		d.once = &once{key: keyOf(ctx, d.settings.Positions)}
	}
	return nil
}

// element is the key and value to write for a record.
type element struct {
	index      int // index of the record
	key, value []byte
	id         []byte // id of the record, for exactly-once delivery

	// of a key for each record
	op     string
	fields [][]byte      // names and values of hash fields in turn
	expire time.Duration // 0: never
}

// size returns the bytes that the script gets.
func (e *element) size() int {
	n := len(e.key) + len(e.value)
	for _, f := range e.fields {
		n += len(f)
	}
	return n
}

// Write writes the records. A record is written when the server has answered.
func (d *Destination) Write(ctx context.Context, records []record.Record) (int, error) {
	d.timeLimit.Begin(ctx)
	all, refused := d.elements(ctx, records)
	n, err := d.writeAll(ctx, all)
	if err == nil {
		err, n = refused, len(all)
	}
	if d.once != nil {
		d.once.wrote(n, err)
	}
	return n, err
}

// elements converts the records up to the first one that cannot be written, and returns its error.
func (d *Destination) elements(ctx context.Context, records []record.Record) (all []element, err error) {
	format := sdk.RecordFormat(ctx)
	for i := range records {
		e := element{index: i}
		if e.key, err = d.key.Append(&d.timeLimit, nil, &records[i]); err != nil {
			return all, fmt.Errorf("cannot execute the template of key: %w", err)
		}
		if len(e.key) == 0 {
			return all, errors.New("cannot write the record: its key is empty")
		}
		if d.keyed != nil {
			err = d.keyed.element(&e, &d.timeLimit, &records[i], format)
		} else if e.value, err = format(nil, &records[i]); err != nil {
			err = fmt.Errorf("cannot encode the record: %w", err)
		}
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	if d.once != nil {
		d.once.identify(records, all)
	}
	return all, nil
}

// Limits for one call of the script: the server runs nothing else meanwhile.
const (
	scriptElements = 500
	scriptBytes    = 1 << 20
)

func (d *Destination) writeAll(ctx context.Context, all []element) (done int, err error) {
	for done < len(all) {
		n, bytes := 0, 0
		for n < len(all)-done && n < scriptElements && (n == 0 || bytes < scriptBytes) {
			bytes += all[done+n].size()
			n++
		}
		written, err := d.write(ctx, all[done:done+n])
		done += written
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// write writes elements and retries after temporary failures.
func (d *Destination) write(ctx context.Context, all []element) (done int, err error) {
	var again common.Backoff
	for begin := time.Now(); ; {
		n, err := d.try(ctx, all[done:])
		done += n
		switch {
		case err == nil:
			return done, nil
		case ctx.Err() != nil:
			return done, sdk.Unavailable(ctx.Err())
		case isDenial(err):
			d.close()
			return done, sdk.Unavailable(fmt.Errorf("the server refused the client: %w", err))
		case isReply(err) && !passes(err):
			return done, fmt.Errorf("the server refused the record: %w", err)
		case time.Since(begin) >= d.settings.RetryFor:
			return done, sdk.Unavailable(fmt.Errorf("cannot write: %w", err))
		}
		sdk.Logger(ctx).Warn("cannot write, retrying", "err", err)
		if err := again.Wait(ctx); err != nil {
			return done, sdk.Unavailable(err)
		}
	}
}

// try writes the elements that are not written yet, with one call of the script. If it returns an error reply of the
// server, the elements before the refused one are written.
func (d *Destination) try(ctx context.Context, all []element) (int, error) {
	if err := d.connect(ctx); err != nil {
		return 0, err
	}
	left := all
	if d.once != nil {
		left = d.once.unknown(all)
	}
	if len(left) == 0 {
		return len(all), nil
	}
	conn := d.conn // close sets d.conn to nil
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	n, err := d.call(left)
	if err != nil && !isReply(err) { // the server may or may not have them
		d.close()
		return 0, err
	}
	if d.once != nil {
		d.once.noted(n)
	}
	if err != nil {
		return left[n].index - all[0].index, err
	}
	return len(all), nil
}

func (d *Destination) connect(ctx context.Context) (err error) {
	if d.conn != nil {
		return nil
	}
	if d.conn, err = d.settings.dial(ctx); err != nil {
		d.conn = nil
		return err
	}
	if d.once != nil {
		if err = d.once.load(d.conn); err != nil {
			d.close()
		}
	}
	return err
}

func (d *Destination) close() {
	if d.conn != nil {
		_ = d.conn.Close()
		d.conn = nil
	}
}

// Teardown disconnects.
func (d *Destination) Teardown(context.Context) error {
	d.close()
	return nil
}

// LifecycleOnDeleted removes the positions.
func (d *Destination) LifecycleOnDeleted(ctx context.Context, values map[string]string) error {
	var settings destinationSettings
	if sdk.Decode(values, &settings) != nil || settings.Positions == "" {
		return nil
	}
	return settings.forget(ctx)
}

// LifecycleOnUpdated removes the old positions when the new settings keep them elsewhere.
func (d *Destination) LifecycleOnUpdated(ctx context.Context, before, after map[string]string) error {
	if before["positionKey"] == after["positionKey"] && before["url"] == after["url"] {
		return nil
	}
	return d.LifecycleOnDeleted(ctx, before)
}

func (s *destinationSettings) forget(ctx context.Context) error {
	c, err := s.dial(ctx)
	if err == nil {
		_, err = c.Do("DEL", keyOf(ctx, s.Positions))
		_ = c.Close()
	}
	if err != nil {
		return fmt.Errorf("cannot remove positions: %w", err)
	}
	return nil
}
