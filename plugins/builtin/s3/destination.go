package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/backoff"
	"github.com/conduit-agent/conduit/plugins/builtin/recordid"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type destinationSettings struct {
	bucketSettings

	Format      string        `json:"format" validate:"required,inclusion=parquet|json|lines" desc:"json and parquet: operation, position, payload, key and metadata of each record. lines: each record in the format of sdk.record.format on a line."`
	Compression string        `json:"compression" default:"none" validate:"inclusion=none|gzip" desc:"How objects of json and lines are compressed. Parquet is always."`
	Largest     int           `json:"object.maxBytes" default:"67108864" validate:"gt=0" desc:"Most bytes of an object with several records, before it is compressed."`
	Encryption  string        `json:"encryption" default:"AES256" validate:"inclusion=AES256|aws:kms|none" desc:"How the store encrypts objects. none: as the bucket says."`
	KMSKey      string        `json:"encryption.kmsKey" desc:"Id of the key for aws:kms. Nothing: the one of the account."`
	ExactlyOnce bool          `json:"exactlyOnce" default:"false" desc:"Whether the positions of records are kept in the bucket, so that none is there twice after a restart. The store must know conditional writes."`
	Ledger      string        `json:"positionsPrefix" desc:"What the keys of the objects with positions begin with, of this destination alone. Nothing: .conduit-positions/, a name made of the connector's id, and /."`
	RetryFor    time.Duration `json:"retry.timeout" default:"1m" validate:"gt=-1" desc:"How long a request is sent again that failed in a way that may pass. Then the pipeline starts again, with pauses, for ever."`
}

// Destination writes objects.
type Destination struct {
	sdk.DestinationBase

	settings destinationSettings
	bucket   *bucket // nil before Open
	ledger   *ledger // nil without an effect of exactly once
	ids      recordid.Sequence
	last     int64 // number of the last object
}

// Parameters describes the settings.
func (d *Destination) Parameters() sdk.Parameters { return sdk.ParametersOf(destinationSettings{}) }

// Configure checks and keeps the settings.
func (d *Destination) Configure(ctx context.Context, values map[string]string) error {
	return d.settings.parse(ctx, values)
}

func (s *destinationSettings) parse(ctx context.Context, values map[string]string) error {
	*s = destinationSettings{}
	if err := sdk.Decode(values, s); err != nil {
		return err
	}
	if s.KMSKey != "" && s.Encryption != "aws:kms" {
		return sdk.SettingError{Setting: "encryption.kmsKey", Message: "needs encryption aws:kms"}
	}
	return s.check(ctx)
}

// Open returns when the bucket was found. One that the key may not list is found by writing.
func (d *Destination) Open(ctx context.Context) (err error) {
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

// item is a record to be written.
type item struct {
	*record.Record
	index int // among the records of a Write
	id    recordid.ID
}

// Write writes the records in as few objects as possible.
func (d *Destination) Write(ctx context.Context, records []record.Record) (n int, err error) {
	defer func() { d.ids.Wrote(n, err) }()
	left := d.unwritten(records)
	for len(left) > 0 {
		body, encoded, refused := d.encode(ctx, left)
		if encoded > 0 {
			switch err := d.store(ctx, body, left[:encoded]); {
			case errors.Is(err, errTaken):
				left = d.ledger.without(left)
				continue
			case err != nil:
				return left[0].index, err
			}
			left = left[encoded:]
		}
		if refused != nil {
			return left[0].index, refused
		}
	}
	return len(records), nil
}

// unwritten returns the records but those that were written before a restart.
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

// store writes an object, again after failures that may pass.
func (d *Destination) store(ctx context.Context, body []byte, items []item) error {
	number := max(time.Now().UnixNano(), d.last+1)
	d.last = number
	return d.retry(ctx, len(items) == 1, func() error {
		if d.ledger != nil {
			return d.ledger.put(ctx, d.settings.header(), body, items)
		}
		return d.bucket.put(ctx, d.settings.key(number), body, d.settings.header())
	})
}

// key returns the key of the object with a number.
func (s *destinationSettings) key(number int64) string {
	suffix := map[string]string{"json": "json", "parquet": "parquet", "lines": "jsonl"}[s.Format]
	if s.zipped() {
		suffix += ".gz"
	}
	return path.Join(s.Prefix, fmt.Sprintf("%d.%s", number, suffix))
}

func (s *destinationSettings) zipped() bool { return s.Compression == "gzip" && s.Format != "parquet" }

// header is that of the objects.
func (s *destinationSettings) header() http.Header {
	h := http.Header{"Content-Disposition": {"attachment"}}
	switch {
	case s.zipped():
		h.Set("Content-Type", "application/gzip")
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

// retry repeats a request until it succeeds, fails for good, or took too long.
func (d *Destination) retry(ctx context.Context, single bool, request func() error) error {
	var again backoff.Backoff
	for begin := time.Now(); ; {
		err := request()
		switch {
		case err == nil || errors.Is(err, errTaken):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case single && code(err) == entityTooLarge:
			return fmt.Errorf("the record is refused: %w", err)
		case !isPassing(err) || time.Since(begin) >= d.settings.RetryFor:
			return sdk.Unavailable(err)
		}
		sdk.Logger(ctx).Warn("cannot write, trying again", "err", err)
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

// LifecycleOnCreated removes the positions of a former connector with this id: they are none of
// this one's.
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
		return nil // settings that are wrong made nothing
	}
	b, err := open(ctx, &s.bucketSettings)
	if err != nil {
		return err
	}
	defer b.close()
	return s.ledger(ctx, b).forget(ctx)
}
