package httpcall

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
)

// Plugins returns the processors of this package.
func Plugins() []sdk.ProcessorPlugin {
	return []sdk.ProcessorPlugin{{
		Name:    "webhook.http",
		Summary: "Send an HTTP request for every record and keep the response.",
		Description: "A request without a response, or with status 429 or 5xx, is retried as often as " +
			"backoffRetry.count says, after growing pauses; every record has as many retries. A record whose " +
			"request fails in the end, or whose response has a status that is not accepted, is refused.",
		Version: "v0.1.0", Author: "conduit",
		New: func() sdk.Processor { return &processor{} },
	}}
}

type config struct {
	// URL to send to, which may be a template over the record.
	URL string `json:"request.url" validate:"required"`
	// Method of the request.
	Method string `json:"request.method" default:"GET"`
	// Body of the request, which may be a template over the record; empty: none.
	Body string `json:"request.body"`
	// The header Content-Type; use headers.Content-Type instead.
	ContentType string `json:"request.contentType"`
	// Timeout for each attempt.
	Timeout time.Duration `json:"request.timeout" default:"30s" validate:"gt=0s"`
	// Headers of the request. Content-Type is application/json unless it is set.
	Headers map[string]string `json:"headers"`

	// Reference to the field for the body of the answer.
	ResponseBody string `json:"response.body" default:".Payload.After"`
	// Reference to the field for the status of the answer, as text; empty: it is not kept.
	ResponseStatus string `json:"response.status"`
	// Statuses from 400 on that do not count as errors: a comma-separated list such as 404,422 or 4xx.
	Accept []string `json:"response.acceptStatus"`
	// Maximum size of a response body in bytes.
	MaxBytes int64 `json:"response.maxBytes" default:"10485760" validate:"gt=0"`

	// Maximum number of retries of a request.
	RetryCount int `json:"backoffRetry.count" default:"0" validate:"gt=-1"`
	// Growth factor of the pauses.
	RetryFactor float64 `json:"backoffRetry.factor" default:"2" validate:"gt=0"`
	// The first pause.
	RetryMin time.Duration `json:"backoffRetry.min" default:"100ms" validate:"gt=-1s"`
	// The longest pause.
	RetryMax time.Duration `json:"backoffRetry.max" default:"5s" validate:"gt=-1s"`
}

type processor struct {
	sdk.ProcessorBase
	method    string
	header    http.Header
	url, body *template.Template // body is nil if there is none
	answer    *fieldref.Ref
	status    *fieldref.Ref // nil: the status is not stored
	client    Client
	scratch   []byte
	timeLimit template.TimeLimit
}

// Parameters implements sdk.Processor.
func (*processor) Parameters() sdk.Parameters { return sdk.Described(config{}, descriptions) }

// Configure implements sdk.Processor.
func (p *processor) Configure(_ context.Context, settings map[string]string) error {
	var c config
	if err := sdk.Decode(settings, &c); err != nil {
		return err
	}
	p.method = strings.ToUpper(c.Method)
	err := errors.Join(p.configureRequest(c), p.configureHeaders(c), p.configureAnswer(c))
	accepted, wrong := parseStatuses(c.Accept)
	p.client = Client{
		Timeout: c.Timeout, MaxResponse: c.MaxBytes, Accepts: accepted,
		Retry: Retry{Count: c.RetryCount, Factor: c.RetryFactor, Min: c.RetryMin, Max: c.RetryMax},
	}
	for name, value := range c.Headers {
		if isSecret(name) {
			p.client.Secrets = append(p.client.Secrets, value, strings.TrimPrefix(value, "Bearer "))
		}
	}
	return errors.Join(err, wrong)
}

// isSecret reports whether a header may hold a secret.
func isSecret(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Content-Type", "Accept", "User-Agent":
		return false
	}
	return true
}

func settingError(setting string, err error) error {
	if err == nil {
		return nil
	}
	return sdk.SettingError{Setting: setting, Message: err.Error()}
}

func (p *processor) configureRequest(c config) (err error) {
	if p.url, err = template.Parse(c.URL, template.Strict); err != nil {
		return settingError("request.url", err)
	}
	if text, constant := p.url.Constant(); constant {
		if err := CheckURL(text); err != nil {
			return settingError("request.url", err)
		}
	}
	if c.Body != "" {
		if p.body, err = template.Parse(c.Body, template.Strict); err != nil {
			return settingError("request.body", err)
		}
	}
	return nil
}

func (p *processor) configureHeaders(c config) error {
	p.header = http.Header{}
	for name, value := range c.Headers {
		if err := sdk.CheckHeader("headers."+name, value); err != nil {
			return err
		}
		p.header.Set(name, value)
	}
	if c.ContentType != "" {
		if p.header.Get("Content-Type") != "" {
			return settingError("request.contentType",
				errors.New("headers.Content-Type is set, too: leave one out"))
		}
		p.header.Set("Content-Type", c.ContentType)
	}
	if p.header.Get("Content-Type") == "" {
		p.header.Set("Content-Type", "application/json")
	}
	return nil
}

func (p *processor) configureAnswer(c config) (err error) {
	if p.answer, err = fieldref.Parse(c.ResponseBody); err != nil {
		return settingError("response.body", err)
	}
	if err := p.answer.Set(&record.Record{}, []byte{}); err != nil {
		return settingError("response.body", err)
	}
	if c.ResponseStatus == "" {
		return nil
	}
	if p.status, err = fieldref.Parse(c.ResponseStatus); err != nil {
		return settingError("response.status", err)
	}
	if err := p.status.Set(&record.Record{}, "create"); err != nil {
		return settingError("response.status", err)
	}
	if p.status.String() == p.answer.String() {
		return settingError("response.status", errors.New("it is the field that response.body names"))
	}
	return nil
}

// parseStatuses parses a list such as 404,5xx.
func parseStatuses(list []string) (accepts func(int) bool, err error) {
	statuses, classes := map[int]bool{}, map[int]bool{}
	for _, item := range list {
		item = strings.TrimSpace(item)
		class, isClass := strings.CutSuffix(strings.ToLower(item), "xx")
		n, err := strconv.Atoi(class)
		switch {
		case err == nil && isClass && n >= 1 && n <= 5:
			classes[n] = true
		case err == nil && !isClass && n >= 100 && n <= 599:
			statuses[n] = true
		default:
			return nil, settingError("response.acceptStatus",
				fmt.Errorf("%q is no status: want for example 404 or 4xx", item))
		}
	}
	return func(status int) bool { return status < 400 || statuses[status] || classes[status/100] }, nil
}

// SchemaParts implements sdk.SchemaUser.
func (p *processor) SchemaParts() schema.Parts {
	refs := []*fieldref.Ref{p.answer}
	if p.status != nil {
		refs = append(refs, p.status)
	}
	parts, request := fieldref.PartsOf(refs...), p.url.Parts()
	if p.body != nil {
		body := p.body.Parts()
		request.Key, request.Payload = request.Key || body.Key, request.Payload || body.Payload
	}
	return schema.Parts{Key: parts.Key || request.Key, Payload: parts.Payload || request.Payload}
}

// Process implements sdk.Processor.
func (p *processor) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	p.timeLimit.BeginWithin(ctx, sdk.EnvFrom(ctx).TimeLimit)
	for i, r := range b.Records(ctx) {
		before := r.Memory()
		err := sdk.InTime(ctx, func(ctx context.Context) error { return p.processOne(ctx, r) })
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

func (p *processor) processOne(ctx context.Context, r *record.Record) error {
	request, err := p.request(r)
	if err != nil {
		return err
	}
	answer, err := p.client.Do(ctx, request)
	if err != nil {
		return fmt.Errorf("cannot send the request: %w", err)
	}
	if err := p.answer.Set(r, answer.Body); err != nil {
		return fmt.Errorf("cannot keep the response: %w", err)
	}
	if p.status != nil {
		if err := p.status.Set(r, strconv.Itoa(answer.Status)); err != nil {
			return fmt.Errorf("cannot keep the status: %w", err)
		}
	}
	return nil
}

func (p *processor) request(r *record.Record) (out Request, err error) {
	out = Request{Method: p.method, Header: p.header}
	if p.scratch, err = p.url.Append(&p.timeLimit, p.scratch[:0], r); err != nil {
		return out, fmt.Errorf("cannot make the URL: %w", err)
	}
	out.URL = string(p.scratch)
	if err := CheckURL(out.URL); err != nil {
		return out, fmt.Errorf("cannot use the URL that request.url makes: %w", err)
	}
	if p.body != nil {
		if out.Body, err = p.body.Append(&p.timeLimit, []byte{}, r); err != nil {
			return out, fmt.Errorf("cannot make the body: %w", err)
		}
	}
	return out, nil
}
