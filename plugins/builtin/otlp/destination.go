package otlp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type destinationSettings struct {
	// URL of the server, such as http://collector.example.com:4317. Over HTTP, /v1/logs, /v1/metrics or /v1/traces
	// follow its path.
	URL string `json:"url" literal:"true" validate:"required"`
	// Protocol of the requests.
	Protocol string `json:"protocol" default:"grpc" validate:"inclusion=grpc|http/protobuf|http/json"`
	// Compression of requests.
	Compression string `json:"compression" default:"gzip" validate:"inclusion=none|gzip|zstd"`
	// Headers of the requests, by name. Values with secrets by reference.
	Headers map[string]string `json:"headers" literal:"true"`
	// Token in the header Authorization, as Bearer TOKEN. By reference, such as ${file:/etc/conduit/token}.
	Token string `json:"auth.token"`
	// Maximum number of records in a request.
	MaxRecords int `json:"batch.maxRecords" default:"1000" validate:"gt=0"`
	// Maximum size in bytes of a request with several records, before compression, about.
	MaxBytes int `json:"batch.maxBytes" default:"2097152" validate:"gt=0"`
	// Timeout of a request.
	Timeout time.Duration `json:"timeout" default:"10s" validate:"gt=0"`
	// Time for which a request with a temporary failure is retried. After that the pipeline fails and is restarted with
	// backoff.
	RetryFor time.Duration `json:"retry.timeout" default:"1m" validate:"gt=-1"`

	plainSettings
	common.TLS
}

// check validates combinations of settings, and returns the URL.
func (s *destinationSettings) check() (*url.URL, error) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" || strings.ContainsAny(s.URL, " \t\r\n") {
		return nil, sdk.SettingError{Setting: "url",
			Message: "must be a URL such as http://collector.example.com:4317, without user, password and parameters"}
	}
	if s.Protocol == protocolGRPC && strings.Trim(u.Path, "/") != "" {
		return nil, sdk.SettingError{Setting: "url", Message: "must not have a path with protocol grpc"}
	}
	errs := []error{sdk.CheckHeader("auth.token", s.Token)}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		errs = append(errs, sdk.CheckHeader("headers."+name, s.Headers[name]))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	_, err = s.TLS.Client()
	return u, err
}

// Destination sends records in requests.
type Destination struct {
	sdk.DestinationBase

	settings destinationSettings
	url      *url.URL
	plain    *plain
	client   *client // nil before Open
	items    items

	refused common.Written // records that were refused together with an earlier one
	reason  error          // why they were refused
}

// Parameters returns the descriptions of the settings.
func (d *Destination) Parameters() sdk.Parameters {
	return sdk.Described(destinationSettings{}, descriptions+common.Descriptions)
}

// Configure validates and stores the settings.
func (d *Destination) Configure(_ context.Context, values map[string]string) (err error) {
	d.settings = destinationSettings{}
	if err := sdk.Decode(values, &d.settings); err != nil {
		return err
	}
	if d.url, err = d.settings.check(); err != nil {
		return err
	}
	d.plain, err = newPlain(&d.settings.plainSettings)
	return err
}

// Open prepares the client. Write connects.
func (d *Destination) Open(context.Context) (err error) {
	d.client, err = newClient(&d.settings, d.url)
	return err
}

// Write sends the records in order, one request after the other.
func (d *Destination) Write(ctx context.Context, records []record.Record) (n int, err error) {
	if len(records) > 0 && d.refused.Skip(records[:1]) > 0 {
		return 0, d.reason
	}
	d.plain.begin(ctx)
	for n < len(records) {
		q, unfit := d.fill(records[n:])
		if q.count > 0 {
			sent, err := d.send(ctx, q, records[n:n+q.count])
			if n += sent; err != nil {
				return n, err
			}
		}
		if unfit != nil {
			return n, unfit
		}
	}
	return n, nil
}

// fill returns a request with the first records, as many as fit. The error describes the first record that cannot be
// sent.
func (d *Destination) fill(records []record.Record) (q *request, unfit error) {
	q = &request{}
	for i := range records {
		one, err := d.items.item(&records[i])
		if err == nil && one == nil {
			one, err = d.plain.item(&records[i])
		}
		if err != nil {
			return q, fmt.Errorf("cannot encode the record: %w", err)
		}
		if q.count > 0 && (one.signal != q.signal || q.body != nil || one.item == nil ||
			q.count == d.settings.MaxRecords || q.size+one.size() > d.settings.MaxBytes) {
			return q, nil
		}
		if q.count == 0 {
			q = newRequest(one.signal)
		}
		if err := q.add(one); err != nil {
			return q, fmt.Errorf("cannot encode the record: %w", err)
		}
	}
	return q, nil
}

// send sends a request. When the server refuses it as a whole, send splits it in halves to find the refused record.
func (d *Destination) send(ctx context.Context, q *request, records []record.Record) (n int, err error) {
	body, err := q.encode(d.client.encoding())
	if err != nil {
		if len(records) > 1 {
			return d.halves(ctx, records)
		}
		return 0, fmt.Errorf("cannot encode the record: %w", err)
	}
	d.client.traceparent, d.client.tracestate = record.TraceContext(records)
	o := d.client.try(ctx, q.signal, body, func(err error, pause time.Duration) {
		sdk.Logger(ctx).Warn("cannot send records, retrying", "err", err, "pause",
			pause.Round(time.Millisecond).String())
	})
	switch {
	case o.err != nil && !o.blames:
		return 0, sdk.Unavailable(fmt.Errorf("cannot send records: %w", o.err))
	case o.err != nil && len(records) > 1:
		return d.halves(ctx, records)
	case o.err != nil:
		return 0, fmt.Errorf("the server refused the record: %w", o.err)
	case o.partial.rejected > 0:
		return 0, d.refuse(o.partial, q, records)
	case o.partial.message != "":
		sdk.Logger(ctx).Warn("the server accepted the records with a warning", "err", d.client.shown(o.partial.message))
	}
	return len(records), nil
}

// halves sends the halves of the records of a request.
func (d *Destination) halves(ctx context.Context, records []record.Record) (n int, err error) {
	half := len(records) / 2
	for _, part := range [][]record.Record{records[:half], records[half:]} {
		q, err := d.fill(part)
		if err != nil {
			return n, err
		}
		sent, err := d.send(ctx, q, part)
		if n += sent; err != nil {
			return n, err
		}
	}
	return n, nil
}

// refuse refuses the records of a request that the server accepted in part. It does not say which ones it rejected, and
// the request must not be repeated, so every record is refused: none is lost without a trace.
func (d *Destination) refuse(p partial, q *request, records []record.Record) error {
	text := fmt.Sprintf("the server rejected %d %s of the request", p.rejected, q.signal.item)
	if len(records) > 1 && p.rejected < int64(len(records)) {
		text += fmt.Sprintf(" with this record, which has %d, and does not say which: "+
			"this record may have been accepted", len(records))
	}
	if message := d.client.shown(p.message); message != "" {
		text += fmt.Sprintf(": %q", message)
	}
	d.reason = errors.New(text)
	d.refused.Keep(records[1:])
	return d.reason
}

// Teardown closes connections.
func (d *Destination) Teardown(context.Context) error {
	if d.client != nil {
		d.client.close()
	}
	return nil
}
