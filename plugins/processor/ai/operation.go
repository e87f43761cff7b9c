package ai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/processor/httpcall"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// operation is the request of a processor to a service about a field.
type operation struct {
	url      setting // where the service is
	key      setting // token for the header Authorization; an empty value: none
	path     string  // of the operation, relative to the URL
	timeout  time.Duration
	retry    httpcall.Retry
	from, to setting // references to the field to send and the field for the result

	texts   int                                // maximum number of texts in a request
	request func(texts []string) (any, error)  // body of the request
	results func(answer []byte, n int) results // results in the answer to a request with n texts
	value   valueFunc
	purpose string                 // of the request, after "cannot "
	done    func(r *record.Record) // if set, called after the value was set
}

// setting is a setting with its name.
type setting struct{ name, value string }

// results are the results for the texts of a request, nil where there is none, or the reason why there are none.
type results struct {
	all []json.RawMessage
	err error
}

// valueFunc converts the result for a text to the value of the field. The result is nil if there is none.
type valueFunc func(text string, result json.RawMessage) (any, error)

// processor asks a service according to settings of the type S.
type processor[S any] struct {
	sdk.ProcessorBase
	operationOf func(S) (operation, error)

	operation operation
	from, to  *fieldref.Ref
	header    http.Header
	client    httpcall.Client
}

// instance returns the constructor of a processor.
func instance[S any](operationOf func(S) (operation, error)) func() sdk.Processor {
	return func() sdk.Processor { return &processor[S]{operationOf: operationOf} }
}

// Parameters implements sdk.Processor.
func (*processor[S]) Parameters() sdk.Parameters { return sdk.Described(*new(S), descriptions) }

// Configure implements sdk.Processor.
func (p *processor[S]) Configure(_ context.Context, settings map[string]string) error {
	var s S
	err := sdk.Decode(settings, &s)
	if err != nil {
		return err
	}
	if p.operation, err = p.operationOf(s); err != nil {
		return err
	}
	o := &p.operation
	if p.from, err = fieldref.Parse(o.from.value); err != nil {
		return sdk.SettingError{Setting: o.from.name, Message: err.Error()}
	}
	if p.to, err = fieldref.Parse(o.to.value); err == nil {
		err = p.to.Set(&record.Record{}, []byte{})
	}
	if err != nil {
		return sdk.SettingError{Setting: o.to.name, Message: err.Error()}
	}
	return p.configureService()
}

// maxAnswer bounds the responses of services.
const maxAnswer = 32 << 20

func (p *processor[S]) configureService() error {
	o := &p.operation
	if err := httpcall.CheckURL(o.url.value); err != nil {
		return sdk.SettingError{Setting: o.url.name, Message: err.Error()}
	}
	if err := sdk.CheckHeader(o.key.name, o.key.value); err != nil {
		return err
	}
	p.header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}
	if o.key.value != "" {
		p.header.Set("Authorization", "Bearer "+o.key.value)
	}
	p.client = httpcall.Client{Timeout: o.timeout, MaxResponse: maxAnswer, Retry: o.retry,
		Secrets: []string{o.key.value}}
	return nil
}

// SchemaParts implements sdk.SchemaUser.
func (p *processor[S]) SchemaParts() schema.Parts { return fieldref.PartsOf(p.from, p.to) }

// Process implements sdk.Processor.
func (p *processor[S]) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	var indices []int
	var texts []string
	for i, r := range b.Records(ctx) {
		text, err := p.text(r)
		if err != nil {
			b.Refuse(i, fmt.Errorf("cannot read the field: %w", err))
			continue
		}
		if indices, texts = append(indices, i), append(texts, text); len(texts) == p.operation.texts {
			p.process(ctx, b, indices, texts)
			indices, texts = indices[:0], texts[:0]
		}
	}
	if len(texts) > 0 {
		p.process(ctx, b, indices, texts)
	}
	return ctx.Err()
}

// text returns the field as text. Objects become JSON.
func (p *processor[S]) text(r *record.Record) (string, error) {
	v, ok, err := p.from.Get(r)
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
		return "", fmt.Errorf("the record has no %s", p.from)
	}
	return "", fmt.Errorf("%s is null", p.from)
}

// process decides the fate of the records with these texts, unless ctx ends. A request that the service refuses is
// repeated for each record, because a single record may be the cause.
func (p *processor[S]) process(ctx context.Context, b *sdk.ProcessBatch, indices []int, texts []string) {
	var all []json.RawMessage
	err := sdk.InTime(ctx, func(ctx context.Context) (err error) { all, err = p.ask(ctx, texts); return err })
	if ctx.Err() != nil {
		return
	}
	var status *httpcall.StatusError
	alone := len(indices) > 1 && errors.As(err, &status) && isAboutContent(status.Status)
	for n, i := range indices {
		switch {
		case alone:
			p.process(ctx, b, indices[n:n+1], texts[n:n+1])
		case err != nil:
			b.Refuse(i, err)
		default:
			if err := p.set(b, i, texts[n], all[n]); err != nil {
				b.Refuse(i, err)
			}
		}
	}
}

// isAboutContent reports whether a single text may be the cause of the status.
func isAboutContent(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge ||
		status == http.StatusUnprocessableEntity
}

// ask sends the request and returns a result for each text.
func (p *processor[S]) ask(ctx context.Context, texts []string) ([]json.RawMessage, error) {
	request, err := p.operation.request(texts)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the request: %w", err)
	}
	target := strings.TrimSuffix(p.operation.url.value, "/") + p.operation.path
	resp, err := p.client.Do(ctx, httpcall.Request{Method: http.MethodPost, URL: target, Header: p.header, Body: body})
	var object map[string]json.RawMessage
	if err == nil && json.Unmarshal(resp.Body, &object) != nil {
		err = errors.New("cannot parse the response of the server: it is not a JSON object")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot %s: %w", p.operation.purpose, err)
	}
	r := p.operation.results(resp.Body, len(texts))
	return r.all, r.err
}

// set sets the field of record i to the value of the result.
func (p *processor[S]) set(b *sdk.ProcessBatch, i int, text string, result json.RawMessage) error {
	v, err := p.operation.value(text, result)
	if err != nil {
		return err
	}
	r := b.Record(i)
	before := r.Memory()
	if err := p.to.Set(r, v); err != nil {
		return fmt.Errorf("cannot store the response: %w", err)
	}
	if p.operation.done != nil {
		p.operation.done(r)
	}
	return b.Take(i, r.Memory()-before)
}

// at returns the part of the JSON at the path, such as choices.0.message, or nil if there is none or it is null.
func at(content json.RawMessage, path string) json.RawMessage {
	for name := range strings.SplitSeq(path, ".") {
		var object map[string]json.RawMessage
		var list []json.RawMessage
		if n, err := strconv.Atoi(name); err != nil {
			_ = json.Unmarshal(content, &object)
			content = object[name]
		} else if json.Unmarshal(content, &list) == nil && n < len(list) {
			content = list[n]
		} else {
			return nil
		}
	}
	if bytes.Equal(content, []byte("null")) {
		return nil
	}
	return content
}

// oneAt finds the only result of an answer at the path.
func oneAt(path string) func([]byte, int) results {
	return func(answer []byte, _ int) results { return results{all: []json.RawMessage{at(answer, path)}} }
}

// textOf converts a text result. reason explains the error for any other result.
func textOf(reason string) valueFunc {
	return func(_ string, result json.RawMessage) (any, error) {
		var text *string
		if json.Unmarshal(result, &text) != nil || text == nil {
			return nil, fmt.Errorf("cannot use the response of the model: %s", reason)
		}
		return *text, nil
	}
}
