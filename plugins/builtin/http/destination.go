package http

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type destinationSettings struct {
	// URL to send records to.
	URL string `json:"url" literal:"true" validate:"required"`
	// Method of the requests.
	Method string `json:"method" default:"POST" validate:"inclusion=POST|PUT|PATCH"`
	// Headers of the requests, by name.
	Headers map[string]string `json:"headers" literal:"true"`
	// Content of a request. single: one record. json: a JSON array of records. lines: one record per line. Each record
	// is in the format of sdk.record.format.
	Body string `json:"body.format" default:"single" validate:"inclusion=single|json|lines"`
	// Content-Type of the requests. Default: application/json, or application/x-ndjson with lines.
	ContentType string `json:"body.contentType" literal:"true"`
	// Compression of bodies.
	Compression string `json:"body.compression" default:"none" validate:"inclusion=none|gzip"`
	// Maximum number of records in a request, with json and lines.
	MaxRecords int `json:"batch.maxRecords" default:"100" validate:"gt=0"`
	// Maximum size in bytes of a body with several records, before compression.
	MaxBytes int `json:"batch.maxBytes" default:"1048576" validate:"gt=0"`
	// Header with an idempotency key: retries of the same records have the same key, with single also after a restart.
	Idempotency string `json:"idempotency.header" literal:"true" default:"Idempotency-Key"`
	// Timeout of a request.
	Timeout time.Duration `json:"timeout" default:"30s" validate:"gt=0"`
	// Time for which a request with a temporary failure is retried. After that the pipeline fails and is restarted with
	// backoff.
	RetryFor time.Duration `json:"retry.timeout" default:"1m" validate:"gt=-1"`

	httpclient.Auth
	httpclient.HMAC
	common.TLS
}

// maxAnswer is the maximum number of bytes read from a response. Only errors show the response.
const maxAnswer = 1 << 20

// requestBytes is the maximum length of a request with several records that is written to its connection at once.
// net/http copies the rest through another buffer for each request.
const requestBytes = 64 << 10

// Destination sends records in requests.
type Destination struct {
	sdk.DestinationBase

	settings destinationSettings
	client   *httpclient.Client // nil before Open
	last     key                // of the last sent or refused record
	buf      []byte             // buffer for the next text
	other    []byte             // buffer of the last text, which may still be in use
}

// Parameters returns the descriptions of the settings.
func (d *Destination) Parameters() sdk.Parameters {
	return sdk.Described(destinationSettings{}, descriptions+httpclient.Descriptions+common.Descriptions)
}

// Configure validates and stores the settings.
func (d *Destination) Configure(_ context.Context, values map[string]string) error {
	d.settings = destinationSettings{}
	if err := sdk.Decode(values, &d.settings); err != nil {
		return err
	}
	if _, err := httpclient.CheckURL(d.settings.URL); err != nil {
		return err
	}
	if err := d.settings.CheckHeaders(d.settings.Headers); err != nil {
		return err
	}
	_, err := d.settings.TLS.Client()
	return err
}

// Open prepares the client. Write connects.
func (d *Destination) Open(context.Context) (err error) {
	s := &d.settings
	if s.Body == "single" {
		s.MaxRecords = 1
	}
	if s.ContentType == "" {
		s.ContentType = "application/json"
		if s.Body == "lines" {
			s.ContentType = "application/x-ndjson"
		}
	}
	if d.client, err = httpclient.New(&s.Auth, &s.HMAC, &s.TLS, s.Headers, s.Timeout, maxAnswer, false); err == nil &&
		s.Body != "single" {
		d.client.Transport.WriteBufferSize = requestBytes
	}
	return err
}

// Write sends the records in order, one request after the other. It encodes the next request while the server processes
// the current one.
func (d *Destination) Write(ctx context.Context, records []record.Record) (n int, err error) {
	b, failed := d.encode(ctx, records, d.last)
	for len(b.ends) > 0 {
		next := func() (batch, error) { return batch{}, failed }
		if rest := records[n+len(b.ends):]; failed == nil && len(rest) > 0 {
			next = d.encodeMeanwhile(ctx, rest, b.keys[len(b.keys)-1])
		}
		sent, err := d.send(ctx, b)
		following, unfit := next()
		d.last = b.keys[min(sent, len(b.keys)-1)].clone()
		if n += sent; err != nil {
			return n, err
		}
		b, failed = following, unfit
	}
	return n, failed
}

// encodeMeanwhile encodes in a goroutine, and returns a function that waits for the result. The caller must call it.
func (d *Destination) encodeMeanwhile(ctx context.Context, records []record.Record, last key) func() (batch, error) {
	var b batch
	var err, panicked error
	var done sync.WaitGroup
	done.Go(func() {
		defer sdk.Recover(&panicked)
		b, err = d.encode(ctx, records, last)
	})
	return func() (batch, error) {
		if done.Wait(); panicked != nil {
			panic(panicked) // in the goroutine in which the host recovers
		}
		return b, err
	}
}

// send sends a batch. When the server refuses it, send splits it in halves to find the refused record.
func (d *Destination) send(ctx context.Context, b batch) (n int, err error) {
	r, err := d.try(ctx, b)
	switch {
	case err != nil:
		return 0, sdk.Unavailable(err)
	case r.Status/100 == 2:
		return len(b.ends), nil
	case !httpclient.Blames(r.Status):
		return 0, sdk.Unavailable(fmt.Errorf("cannot send records: %w", d.client.ResponseError(r)))
	case len(b.ends) == 1:
		return 0, fmt.Errorf("the server refused the record: %w", d.client.ResponseError(r))
	}
	first, second := b.halves()
	if n, err = d.send(ctx, first); err != nil {
		return n, err
	}
	rest, err := d.send(ctx, second)
	return n + rest, err
}

// try sends a request and retries after temporary failures until RetryFor has passed.
func (d *Destination) try(ctx context.Context, b batch) (*httpclient.Response, error) {
	body, header, err := d.request(b)
	if err != nil {
		return nil, err
	}
	var again common.Backoff
	for begin := time.Now(); ; {
		r, err := d.client.Do(ctx, d.settings.Method, d.settings.URL, body, header)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil && !httpclient.Passes(r.Status), r != nil && r.Status/100 == 2:
			// The body of a success does not matter.
			return r, nil
		case err == nil:
			err = d.client.ResponseError(r)
		}
		pause := httpclient.PauseAfter(r, &again)
		if time.Since(begin)+pause > d.settings.RetryFor {
			return nil, fmt.Errorf("cannot send records: %w (the last of %d tries)", err, again.Tries)
		}
		sdk.Logger(ctx).Warn("cannot send records, retrying", "err", err, "tries", again.Tries, "pause",
			pause.Round(time.Millisecond).String())
		if err := common.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

func (d *Destination) request(b batch) (body []byte, header http.Header, err error) {
	header = http.Header{}
	header.Set("Content-Type", d.settings.ContentType)
	if d.settings.Idempotency != "" {
		header.Set(d.settings.Idempotency, b.key())
	}
	if b.traceparent != "" {
		header.Set(record.KeyTraceParent, b.traceparent)
		if b.tracestate != "" {
			header.Set(record.KeyTraceState, b.tracestate)
		}
	}
	body = b.body(d.settings.Body)
	if d.settings.Compression == "gzip" {
		header.Set("Content-Encoding", "gzip")
		body, err = httpclient.Compress(body)
	}
	return body, header, err
}

// Teardown closes connections.
func (d *Destination) Teardown(context.Context) error {
	if d.client != nil {
		d.client.Close()
	}
	return nil
}
