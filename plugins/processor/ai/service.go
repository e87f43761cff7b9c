//go:build !minimal

package ai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/processor/httpcall"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func newOllama() sdk.Processor     { return &ollama{} }
func newTextgen() sdk.Processor    { return &textgen{} }
func newEmbeddings() sdk.Processor { return &embeddings{} }
func newCommand() sdk.Processor    { return &command{} }
func newEmbed() sdk.Processor      { return &embed{} }
func newRerank() sdk.Processor     { return &rerank{} }

// maxAnswer bounds the responses of services.
const maxAnswer = 32 << 20

// timeLimit is a setting of all processors of this package.
type timeLimit struct {
	Timeout time.Duration `json:"timeout" default:"1m" desc:"How long one try may take." validate:"gt=0s"`
}

// backoff holds the retry settings of most processors of this package.
type backoff struct {
	Count  int           `json:"backoffRetry.count" default:"0" desc:"How often a request is sent again." validate:"gt=-1"`
	Factor float64       `json:"backoffRetry.factor" default:"2" desc:"By what the pauses grow." validate:"gt=0"`
	Min    time.Duration `json:"backoffRetry.min" default:"100ms" desc:"The first pause." validate:"gt=-1s"`
	Max    time.Duration `json:"backoffRetry.max" default:"5s" desc:"The longest pause." validate:"gt=-1s"`
}

func (b backoff) retry() httpcall.Retry {
	return httpcall.Retry{Count: b.Count, Factor: b.Factor, Min: b.Min, Max: b.Max}
}

// service is a server that takes and returns JSON.
type service struct {
	base   string
	header http.Header
	client httpcall.Client
}

// newService returns the service at the URL base. setting and keySetting are the names of the settings with the URL and
// the token.
func newService(setting, base, keySetting, token string, timeout time.Duration, retry httpcall.Retry) (service, error) {
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return service{}, sdk.SettingError{Setting: setting, Message: "want a URL that begins with http:// or https:// and a host"}
	}
	if err := sdk.CheckHeader(keySetting, token); err != nil {
		return service{}, err
	}
	s := service{
		base:   strings.TrimSuffix(base, "/"),
		header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}},
		client: httpcall.Client{Timeout: timeout, MaxResponse: maxAnswer, Retry: retry, Secrets: []string{token}},
	}
	if token != "" {
		s.header.Set("Authorization", "Bearer "+token)
	}
	return s, nil
}

// post sends the request and reads the answer.
func (s *service) post(ctx context.Context, path string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("cannot make the request: %w", err)
	}
	resp, err := s.client.Do(ctx, httpcall.Request{Method: http.MethodPost, URL: s.base + path, Header: s.header, Body: body})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(resp.Body, answer); err != nil {
		return errors.New("cannot read the answer of the server: it is no JSON of the form that is expected")
	}
	return nil
}

// field is a field that a processor reads or sets.
type field struct{ ref *fieldref.Ref }

// parseField parses a reference. If set is true, the field must be settable.
func parseField(setting, text string, set bool) (f field, err error) {
	if f.ref, err = fieldref.Parse(text); err == nil && set {
		err = f.ref.Set(&record.Record{}, []byte{})
	}
	if err != nil {
		return f, sdk.SettingError{Setting: setting, Message: err.Error()}
	}
	return f, nil
}

// text returns the field as text. Objects become JSON.
func (f field) text(r *record.Record) (string, error) {
	v, ok, err := f.ref.Get(r)
	if err != nil {
		return "", err
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case []byte:
		return string(v), nil
	case record.Operation:
		return v.String(), nil
	case nil:
	default:
		b, err := json.Marshal(v)
		return string(b), err
	}
	if !ok {
		return "", fmt.Errorf("there is no %s", f.ref)
	}
	return "", fmt.Errorf("%s is null", f.ref)
}

func partsOf(fields ...field) schema.Parts {
	refs := make([]*fieldref.Ref, len(fields))
	for i, f := range fields {
		refs[i] = f.ref
	}
	return fieldref.PartsOf(refs...)
}

// each processes the records one at a time. An error refuses its record, unless the pipeline is stopping.
func each(ctx context.Context, b *sdk.ProcessBatch, process func(context.Context, *record.Record) error) error {
	for i, r := range b.Records(ctx) {
		before := r.Memory()
		err := sdk.InTime(ctx, func(ctx context.Context) error { return process(ctx, r) })
		if ctx.Err() != nil {
			break
		}
		if err == nil {
			err = b.Take(i, r.Memory()-before)
		}
		if err != nil {
			b.Refuse(i, err)
		}
	}
	return ctx.Err()
}

// transform replaces the text of a field by the result of make.
func transform(from, to field, r *record.Record, make func(text string) (string, error)) error {
	text, err := from.text(r)
	if err != nil {
		return fmt.Errorf("cannot read the field: %w", err)
	}
	made, err := make(text)
	if err != nil {
		return err
	}
	return to.ref.Set(r, made)
}
