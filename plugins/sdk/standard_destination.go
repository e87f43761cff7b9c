package sdk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/template"
)

type destinationOptions struct {
	// Number of records per write. 0: as they arrive. Without sdk.batch.delay, a write waits for this number of
	// records, or until the sources cannot read more.
	BatchSize int `json:"sdk.batch.size" default:"0" validate:"gt=-1"`
	// Maximum time to wait for more records before a write.
	BatchDelay time.Duration `json:"sdk.batch.delay" default:"0"`
	// Maximum number of records per second. 0: no limit.
	RatePerSecond float64 `json:"sdk.rate.perSecond" default:"0" validate:"gt=-1"`
	// Maximum number of records at once under a rate limit. 0: the records of one second.
	RateBurst int `json:"sdk.rate.burst" default:"0" validate:"gt=-1"`
	// Format of records written as text. opencdc/json encodes raw data in base64, opencdc/text writes it as text. csv
	// and logfmt write members of the payload.
	Format string `json:"sdk.record.format" default:"opencdc/json" validate:"inclusion=opencdc/json|opencdc/text|debezium/json|template|csv|logfmt"`
	// Template, or comma-separated options such as debezium.schema.name=orders. For csv: the columns, which are members
	// of the payload such as id and address.city, and perhaps delimiter=; or header=false. For logfmt: the members;
	// empty: all. file and s3 write the header of csv at the beginning of each file and object.
	FormatOptions string `json:"sdk.record.format.options"`
	// Whether payloads with a schema are decoded.
	PayloadEnabled bool `json:"sdk.schema.extract.payload.enabled" default:"true"`
	// Whether keys with a schema are decoded.
	KeyEnabled bool `json:"sdk.schema.extract.key.enabled" default:"true"`
}

// standardDestination is a destination wrapped in the standard middleware.
type standardDestination struct {
	Destination
	params    *standardParameters
	options   destinationOptions
	format    textFormat
	timeLimit template.TimeLimit // limit for format
	limiter   *rate.Limiter      // nil: no limit
	schemas   *schema.Cache      // nil: no decoding or encoding
	chunk     int                // maximum number of records per call of the connector
	buffer    WriteBuffer        // gathers batches
	overlap   *Overlap           // replaces buffer; nil if writes do not overlap
}

func (d *standardDestination) Parameters() Parameters {
	return maps.Clone(d.params.parametersOf(d.Destination).all)
}

func (d *standardDestination) Configure(ctx context.Context, settings map[string]string) error {
	own, err := split(d.params.parametersOf(d.Destination).all, settings, &d.options)
	if err != nil {
		return err
	}
	o := d.options
	if err := checkDelay(o.BatchDelay); err != nil {
		return err
	}
	if d.format, err = newFormat(o.Format, o.FormatOptions, &d.timeLimit); err != nil {
		return SettingError{settingFormatOptions, err.Error()}
	}
	d.chunk = math.MaxInt
	if o.BatchSize > 0 {
		d.chunk = o.BatchSize
	}
	if o.RatePerSecond > 0 {
		burst := o.RateBurst
		if burst == 0 {
			burst = int(min(math.Ceil(o.RatePerSecond), math.MaxInt32))
		}
		d.limiter = rate.NewLimiter(rate.Limit(o.RatePerSecond), burst)
		d.chunk = min(d.chunk, burst)
	}
	return d.Destination.Configure(d.context(ctx), own)
}

func (d *standardDestination) Open(ctx context.Context) error {
	if env := EnvFrom(ctx); env.Schemas != nil {
		d.schemas = &schema.Cache{Registry: env.Schemas}
	}
	ctx = d.context(ctx)
	d.buffer = WriteBuffer{Begin: d.timeLimit.Begin, Write: d.contained, Breaks: breaks, Size: d.options.BatchSize,
		Delay: d.options.BatchDelay}
	d.buffer.Open(ctx)
	if err := d.Destination.Open(ctx); err != nil {
		return err
	}
	o, ok := d.Destination.(OverlappingDestination)
	if ok && d.options.BatchSize == 0 && d.options.BatchDelay == 0 && d.limiter == nil && o.Overlaps() {
		d.overlap = &Overlap{Begin: func(ctx context.Context, records []record.Record) (int, WriteResult, error) {
			return d.begin(ctx, o, records)
		}, Breaks: breaks}
		d.overlap.Open(ctx)
	}
	return nil
}

// contained writes the records, and returns a panic as an error.
func (d *standardDestination) contained(ctx context.Context, records []record.Record) (n int, err error) {
	defer Recover(&err)
	return d.Write(ctx, records)
}

// begin begins to write the records before the first one that cannot be converted.
func (d *standardDestination) begin(
	ctx context.Context, o OverlappingDestination, records []record.Record,
) (n int, result WriteResult, err error) {
	defer Recover(&err)
	d.timeLimit.Begin(ctx)
	records, ready, refused := d.convert(ctx, records)
	var wait WriteResult
	if ready > 0 {
		if n, wait, err = o.Begin(ctx, records[:ready:ready]); err != nil {
			refused = err
		}
	}
	return n, func(ctx context.Context) (n int, err error) {
		defer Recover(&err)
		return wait(ctx)
	}, refused
}

// breaks reports whether an error of a connector is not the fault of a record.
func breaks(err error) bool {
	return errors.As(err, new(unavailableError)) || errors.As(err, new(*PanicError))
}

// context returns ctx with the format in the settings.
func (d *standardDestination) context(ctx context.Context) context.Context {
	if d.format.append == nil {
		return ctx
	}
	env := *EnvFrom(ctx)
	if env.format != nil {
		return ctx
	}
	env.format, env.header = d.format.append, d.format.header
	return WithEnv(ctx, &env)
}

func (d *standardDestination) Write(ctx context.Context, records []record.Record) (int, error) {
	if d.schemas == nil && len(records) <= d.chunk && d.limiter == nil {
		return d.Destination.Write(d.context(ctx), records)
	}
	ctx = d.context(ctx)
	done := 0
	for done < len(records) {
		part := records[done : min(len(records)-done, d.chunk)+done]
		n, tried, err := d.writePart(ctx, part)
		if n < 0 || n > len(part) {
			return -1, fmt.Errorf("wrote %d of %d records", n, len(part))
		}
		if done += n; err != nil || n < tried {
			return done, err
		}
	}
	return done, nil
}

// writePart writes the records before the first one that cannot be converted, at most as many as may be decoded at
// once. It returns the numbers of written and of tried records.
func (d *standardDestination) writePart(ctx context.Context, records []record.Record) (written, tried int, err error) {
	records, ready, refused := d.convert(ctx, records)
	if ready > 0 {
		if d.limiter != nil {
			if err := d.limiter.WaitN(ctx, ready); err != nil {
				return 0, ready, err
			}
		}
		if n, err := d.Destination.Write(ctx, records[:ready:ready]); err != nil || n != ready {
			return n, ready, err
		}
	}
	return ready, ready, refused
}

// minDecoded is the number of bytes that the decoded records of a write may take in any case.
const minDecoded = 32 << 20

// convert decodes the raw parts of records that name their schema. If the settings switch off decoding, it encodes the
// structured parts, because a source in the same process did not encode them. It converts a copy, because the records
// are lent. It also returns the number of records before the first one that cannot be converted, or that must wait for
// the memory of the decoded records before it.
func (d *standardDestination) convert(
	ctx context.Context, records []record.Record,
) (converted []record.Record, ready int, err error) {
	if d.schemas == nil {
		return records, len(records), nil
	}
	copied, memory := false, 0
	for i := range records {
		if memory >= max(Budget(ctx)/4, minDecoded) {
			return records, i, nil
		}
		decode, encode := d.encoded(&records[i]), d.structured(&records[i])
		if decode == (schema.Parts{}) && encode == (schema.Parts{}) {
			continue
		}
		if !copied {
			records, copied = slices.Clone(records), true
		}
		n, err := d.schemas.DecodeRecordWithin(ctx, &records[i], decode, Budget(ctx))
		if memory += n; err != nil {
			return records, i, fmt.Errorf("cannot decode the record: %w", err)
		}
		if err := d.schemas.EncodeRecord(ctx, &records[i], encode); err != nil {
			return records, i, fmt.Errorf("cannot encode the record: %w", err)
		}
	}
	return records, len(records), nil
}

// encoded returns the parts of r to decode.
func (d *standardDestination) encoded(r *record.Record) schema.Parts {
	return schema.Parts{
		Key: d.options.KeyEnabled && isRaw(r.Key) && r.Metadata.Get(record.KeyKeySchemaSubject) != "",
		Payload: d.options.PayloadEnabled && (isRaw(r.After) || isRaw(r.Before)) &&
			r.Metadata.Get(record.KeyPayloadSchemaSubject) != "",
	}
}

// structured returns the parts of r to encode.
func (d *standardDestination) structured(r *record.Record) schema.Parts {
	if d.options.KeyEnabled && d.options.PayloadEnabled {
		return schema.Parts{}
	}
	return schema.Parts{
		Key: !d.options.KeyEnabled && isStructured(r.Key) && r.Metadata.Get(record.KeyKeySchemaSubject) != "",
		Payload: !d.options.PayloadEnabled && (isStructured(r.After) || isStructured(r.Before)) &&
			r.Metadata.Get(record.KeyPayloadSchemaSubject) != "",
	}
}

func isStructured(d record.Data) bool {
	_, ok := d.Structured()
	return ok
}

func isRaw(d record.Data) bool {
	_, ok := d.Raw()
	return ok
}

func (d *standardDestination) WriteAsync(
	ctx context.Context, records []record.Record, settled func(n int, err error),
) error {
	if d.overlap != nil {
		return d.overlap.Put(ctx, records, settled)
	}
	return d.buffer.Put(d.context(ctx), records, settled)
}

// Overlaps reports, after Open, whether writes overlap.
func (d *standardDestination) Overlaps() bool { return d.overlap != nil }

func (d *standardDestination) Flush(ctx context.Context) error {
	if d.overlap != nil {
		return d.overlap.Flush(ctx)
	}
	return d.buffer.Flush(d.context(ctx))
}

func (d *standardDestination) Teardown(ctx context.Context) error {
	d.buffer.Close()
	if d.overlap != nil {
		d.overlap.Close()
	}
	return d.Destination.Teardown(d.context(ctx))
}

func (d *standardDestination) lifecycle() lifecycle {
	return lifecycle{d.Destination, d.params.parametersOf(d.Destination).own}
}

func (d *standardDestination) LifecycleOnCreated(ctx context.Context, settings map[string]string) error {
	return d.lifecycle().created(ctx, settings)
}

func (d *standardDestination) LifecycleOnUpdated(ctx context.Context, before, after map[string]string) error {
	return d.lifecycle().updated(ctx, before, after)
}

func (d *standardDestination) LifecycleOnDeleted(ctx context.Context, settings map[string]string) error {
	return d.lifecycle().deleted(ctx, settings)
}
