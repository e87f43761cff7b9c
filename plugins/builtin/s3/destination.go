package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/parquet"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
	"github.com/conduit-agent/conduit/plugins/texttype"
)

type destinationSettings struct {
	bucketSettings

	// Prefix of object keys, or a template for it, such as {{ .Metadata.GetCollection }}/{{ strftime "%Y/%m/%d/%H" }}.
	// Each object then has records of one prefix.
	Prefix string `json:"prefix" template:"true"`
	// Key of objects instead of prefix, or a template that makes it, such as {{ strftime "%Y/%m/%d/%H" }}.jsonl. A
	// number is inserted before the extension: 2026/10/10/13-1791640800000000000.jsonl. An object has only records with
	// the same key.
	Key string `json:"key" template:"true"`
	// Text for a value in a template of prefix or key that is empty.
	Empty string `json:"emptyValue" literal:"true" default:"unknown" validate:"required"`
	// Time zone of strftime in a template of prefix or key, such as Local or Europe/Vienna.
	Zone string `json:"timezone" default:"UTC"`
	// Maximum number of different prefixes or keys that a template makes in an hour. A record with another one is
	// refused.
	PerHour int `json:"prefixesPerHour" default:"10000" validate:"gt=0"`
	// json and parquet: operation, position, payload, key and metadata of each record; parquet can have a column for
	// each field of the payload instead, see parquet.columns. lines: each record in the format of sdk.record.format on
	// a line.
	Format string `json:"format" validate:"required,inclusion=parquet|json|lines"`
	// Columns of parquet objects. record: operation, position, payload, key and metadata, in which structured data is
	// JSON. payload: each field of the payload, with the type in the record's schema, or else of its values.
	Columns string `json:"parquet.columns" default:"record" validate:"inclusion=record|payload"`
	// Parts of the record that are columns in addition to the payload: operation, key, position, metadata. The columns
	// have the prefix conduit_.
	Extra []string `json:"parquet.recordColumns" default:"operation"`
	// Compression of json and lines objects. Parquet is always compressed.
	Compression string `json:"compression" default:"none" validate:"inclusion=none|gzip|zstd"`
	// Maximum size in bytes of an object with several records, before compression.
	Largest int `json:"object.maxBytes" default:"67108864" validate:"gt=0"`
	// Maximum number of records of an object. 0: no limit but sdk.batch.size.
	MaxRecords int `json:"object.maxRecords" default:"0" validate:"gt=-1"`
	// Server-side encryption of objects. none: the default of the bucket.
	Encryption string `json:"encryption" default:"AES256" validate:"inclusion=AES256|aws:kms|none"`
	// Id of the key for aws:kms. Default: the key of the account.
	KMSKey string `json:"encryption.kmsKey"`
	// Whether record positions are kept in the bucket, so that no record is duplicated after a restart. The store must
	// support conditional writes.
	ExactlyOnce bool `json:"exactlyOnce" default:"false"`
	// Key prefix of the objects with positions; each destination needs its own. Default: .conduit-positions/, a name
	// derived from the connector's id, and /.
	Ledger string `json:"positionsPrefix" literal:"true"`
	// Time for which a request with a temporary failure is retried. After that the pipeline fails and is restarted with
	// backoff.
	RetryFor time.Duration `json:"retry.timeout" default:"1m" validate:"gt=-1"`
}

// Destination writes objects.
type Destination struct {
	sdk.DestinationBase

	settings  destinationSettings
	names     *template.Template // of prefix or key
	hourly    hourly
	timeLimit template.TimeLimit
	bucket    *bucket                     // nil before Open
	frame     func(content []byte) []byte // compresses with zstd; nil before the first object
	ledger    *ledger                     // nil unless the effect is exactly once
	tables    tables                      // empty unless parquet.columns is payload
	ids       common.RecordIDs
	last      int64 // number of the last object
}

// Parameters describes the settings.
func (d *Destination) Parameters() sdk.Parameters {
	return sdk.Described(destinationSettings{}, descriptions+common.Descriptions)
}

// Configure checks and keeps the settings.
func (d *Destination) Configure(ctx context.Context, values map[string]string) (err error) {
	if err := d.settings.parse(ctx, values); err != nil {
		return err
	}
	if d.tables.extra, err = d.settings.extra(); err != nil {
		return err
	}
	d.names, err = d.settings.template()
	return err
}

func (s *destinationSettings) parse(ctx context.Context, values map[string]string) error {
	*s = destinationSettings{}
	if err := sdk.Decode(values, s); err != nil {
		return err
	}
	if s.KMSKey != "" && s.Encryption != "aws:kms" {
		return sdk.SettingError{Setting: "encryption.kmsKey", Message: "needs encryption aws:kms"}
	}
	if err := s.checkKey(); err != nil {
		return err
	}
	return s.check(ctx)
}

// template returns the setting prefix or key as a template.
func (s *destinationSettings) template() (*template.Template, error) {
	zone, err := texttype.Zone("timezone", s.Zone)
	if err != nil {
		return nil, err
	}
	if err := checkName(s.Empty); err != nil || strings.Contains(s.Empty, "/") {
		return nil, sdk.SettingError{Setting: "emptyValue", Message: "must be a name that may be between two /"}
	}
	setting, text := s.named()
	t, err := template.ParsePath(text, s.Empty, zone)
	if err != nil {
		return nil, sdk.SettingError{Setting: setting, Message: err.Error()}
	}
	return t, nil
}

// Open returns when the bucket has been found. If the access key may not list the bucket, only writing shows whether it
// exists.
func (d *Destination) Open(ctx context.Context) (err error) {
	d.tables.open(ctx)
	if d.bucket, err = open(ctx, &d.settings.bucketSettings); err != nil {
		return err
	}
	if err := d.bucket.exists(ctx); err != nil && code(err) != accessDenied {
		return err
	}
	if !d.settings.ExactlyOnce {
		return nil
	}
	d.ledger = d.settings.ledger(ctx, d.bucket)
	return d.ledger.load(ctx)
}

// item is a record to write.
type item struct {
	*record.Record
	index int // in the records of a Write
	id    common.RecordID
	name  string         // the prefix or key, if it is a template, or the record has a table
	table *parquet.Table // nil unless parquet.columns is payload
}

// Write writes the records in as few objects as possible.
func (d *Destination) Write(ctx context.Context, records []record.Record) (n int, err error) {
	d.timeLimit.Begin(ctx)
	defer func() {
		if d.ids.Wrote(n, err); d.ledger != nil && err == nil {
			clear(d.ledger.ahead)
		}
	}()
	if n, err := d.write(ctx, d.unwritten(records)); err != nil {
		return n, err
	}
	return len(records), nil
}

// write writes the items. On failure it returns the index of the first unwritten item, which is also the item that a
// refusal is about.
func (d *Destination) write(ctx context.Context, left []item) (int, error) {
	for len(left) > 0 {
		parts, n, refused := d.parts(ctx, left)
		for i, o := range parts {
			err := d.store(ctx, o)
			switch {
			case errors.Is(err, errTaken):
				left = d.ledger.without(left)
			case code(err) == entityTooLarge && len(o.items) == 1:
				return d.writeBefore(ctx, o.items[0].index, parts[i+1:], err)
			case err != nil:
				return first(parts[i:]), err
			}
			if err != nil {
				n, refused = 0, nil
				break
			}
		}
		if n > 0 {
			d.tables.commit()
		}
		if refused != nil {
			return left[n].index, refused
		}
		left = left[n:]
	}
	return 0, nil
}

// writeBefore writes the items of parts before the item with the index, which err refuses.
func (d *Destination) writeBefore(ctx context.Context, index int, parts []part, err error) (int, error) {
	var before []item
	for _, o := range parts {
		for _, it := range o.items {
			if it.index < index {
				before = append(before, it)
			}
		}
	}
	if n, err := d.write(ctx, before); err != nil {
		return n, err
	}
	return index, err
}

// first returns the lowest index in parts.
func first(parts []part) int {
	lowest := parts[0].items[0].index
	for _, o := range parts {
		lowest = min(lowest, o.items[0].index)
	}
	return lowest
}

// unwritten returns the records without those written before a restart.
func (d *Destination) unwritten(records []record.Record) []item {
	all := make([]item, len(records))
	for i := range records {
		all[i] = item{Record: &records[i], index: i}
	}
	if d.ledger == nil {
		return all
	}
	for i, id := range d.ids.IDs(records) {
		all[i].id = id
	}
	return d.ledger.without(all)
}

// store writes an object and retries after transient failures.
func (d *Destination) store(ctx context.Context, o part) error {
	number := max(time.Now().UnixNano(), d.last+1)
	d.last = number
	return d.retry(ctx, len(o.items) == 1, func() error {
		if d.ledger != nil {
			return d.ledger.put(ctx, d.settings.keyOf(o.name, d.ledger.next), o.body, o.items)
		}
		return d.bucket.put(ctx, d.settings.keyOf(o.name, number), o.body, d.settings.header())
	})
}

func (s *destinationSettings) compressed() bool {
	return s.Compression != "none" && s.Format != "parquet"
}

// header returns the header of the objects.
func (s *destinationSettings) header() http.Header {
	h := http.Header{"Content-Disposition": {"attachment"}}
	switch {
	case s.compressed():
		h.Set("Content-Type", map[string]string{"gzip": "application/gzip", "zstd": "application/zstd"}[s.Compression])
	case s.Format == "json":
		h.Set("Content-Type", "application/json")
	case s.Format == "lines":
		h.Set("Content-Type", "application/x-ndjson")
	default:
		h.Set("Content-Type", "application/octet-stream")
	}
	if s.Encryption != "none" {
		h.Set("X-Amz-Server-Side-Encryption", s.Encryption)
	}
	if s.KMSKey != "" {
		h.Set("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id", s.KMSKey)
	}
	return h
}

// retry repeats a request until it succeeds, fails permanently, or times out.
func (d *Destination) retry(ctx context.Context, single bool, request func() error) error {
	var again common.Backoff
	for begin := time.Now(); ; {
		err := request()
		switch {
		case err == nil || errors.Is(err, errTaken):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case single && code(err) == entityTooLarge:
			return fmt.Errorf("the store refused the record: %w", err)
		case !isPassing(err) || time.Since(begin) >= d.settings.RetryFor:
			return sdk.Unavailable(err)
		}
		sdk.Logger(ctx).Warn("cannot write, retrying", "err", err)
		if err := again.Wait(ctx); err != nil {
			return err
		}
	}
}

// Teardown closes connections.
func (d *Destination) Teardown(context.Context) error {
	if d.bucket != nil {
		d.bucket.close()
	}
	return nil
}

// LifecycleOnCreated removes the positions of a former connector with the same id.
func (d *Destination) LifecycleOnCreated(ctx context.Context, values map[string]string) error {
	return d.forget(ctx, values)
}

// LifecycleOnDeleted removes the objects with positions.
func (d *Destination) LifecycleOnDeleted(ctx context.Context, values map[string]string) error {
	return d.forget(ctx, values)
}

func (d *Destination) forget(ctx context.Context, values map[string]string) error {
	var s destinationSettings
	if err := s.parse(ctx, values); err != nil || !s.ExactlyOnce {
		return nil // invalid settings have written nothing
	}
	b, err := open(ctx, &s.bucketSettings)
	if err != nil {
		return err
	}
	defer b.close()
	return s.ledger(ctx, b).forget(ctx)
}
