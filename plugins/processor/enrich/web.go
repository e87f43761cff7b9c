package enrich

import (
	"container/list"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/conduit-agent/conduit/plugins/charset"
	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/processor/httpcall"
	"github.com/conduit-agent/conduit/plugins/processor/jsonvalue"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
)

// web adds the responses of an HTTP service.
type web struct {
	sdk.ProcessorBase
	settings  webSettings
	url       *template.Template
	target    *fieldref.Ref
	client    httpcall.Client
	header    http.Header
	cache     cache
	timeLimit template.TimeLimit
}

type webSettings struct {
	// URL of the request, a template over the record. Use urlquery for values from records.
	URL string `json:"url" validate:"required"`
	// Header of the request.
	Headers map[string]string `json:"headers.*"`
	// Reference to the field that the answer is put into.
	Target string `json:"target" default:".Payload.After.enrichment"`
	// Form of the answer.
	Body string `json:"body" default:"json" validate:"inclusion=json|text"`
	// Longest wait for an answer.
	Timeout time.Duration `json:"timeout" default:"5s" validate:"gt=0"`
	// Longest answer.
	MaxBytes int64 `json:"maxBytes" default:"1048576" validate:"gt=0,lt=67108865"`
	// Action for a record when the response is 404.
	Missing string `json:"missing" default:"pass" validate:"inclusion=pass|refuse|filter"`
	// Time for which a response is cached. 0: never.
	TTL time.Duration `json:"cache.ttl" default:"1m"`
	// Answers that are remembered. The least recently used are forgotten first, also when all take more than an eighth
	// of memory.limit (at most 256 MiB).
	Size int `json:"cache.size" default:"10000" validate:"gt=0,lt=1000001"`
	// Maximum number of retries of a request.
	Retries int `json:"retries" default:"3" validate:"gt=-1,lt=101"`
	// Pause before the first repetition. It doubles from one to the next.
	Min time.Duration `json:"backoff.min" default:"100ms" validate:"gt=0"`
	// Longest pause.
	Max time.Duration `json:"backoff.max" default:"5s" validate:"gt=0"`
}

// Parameters implements sdk.Processor.
func (p *web) Parameters() sdk.Parameters { return sdk.Described(webSettings{}, descriptions) }

// Configure implements sdk.Processor.
func (p *web) Configure(_ context.Context, settings map[string]string) (err error) {
	if err := sdk.Decode(settings, &p.settings); err != nil {
		return err
	}
	for name, value := range p.settings.Headers {
		if err := sdk.CheckHeader("headers."+name, value); err != nil {
			return err
		}
	}
	if p.url, err = template.Parse(p.settings.URL, template.Exact); err != nil {
		return sdk.SettingError{Setting: "url", Message: err.Error()}
	}
	if text, ok := p.url.Constant(); ok {
		if err := httpcall.CheckURL(text); err != nil {
			return sdk.SettingError{Setting: "url", Message: err.Error()}
		}
	}
	p.target, err = parseTarget(p.settings.Target)
	return err
}

// SchemaParts implements sdk.SchemaUser.
func (p *web) SchemaParts() schema.Parts {
	a, b := p.url.Parts(), p.target.Parts()
	return schema.Parts{Key: a.Key || b.Key, Payload: a.Payload || b.Payload}
}

// Open implements sdk.Processor.
func (p *web) Open(context.Context) error {
	c := p.settings
	p.header = http.Header{}
	var secrets []string
	for name, v := range c.Headers {
		p.header.Set(name, v)
		secrets = append(secrets, v)
	}
	p.client = httpcall.Client{
		Timeout: c.Timeout, MaxResponse: c.MaxBytes, Secrets: secrets,
		Retry:   httpcall.Retry{Count: c.Retries, Min: c.Min, Max: c.Max},
		Accepts: func(status int) bool { return status < 300 || status == http.StatusNotFound },
	}
	p.cache = cache{size: p.settings.Size, ttl: p.settings.TTL}
	return nil
}

// Process implements sdk.Processor.
func (p *web) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	p.timeLimit.BeginWithin(ctx, sdk.EnvFrom(ctx).TimeLimit)
	for i, r := range b.Records(ctx) {
		var a answer
		err := sdk.InTime(ctx, func(ctx context.Context) (err error) {
			a, err = p.answer(ctx, r)
			return err
		})
		if err := ctx.Err(); err != nil {
			return err
		}
		if err == nil && a.found {
			err = b.Take(i, record.ValueMemory(a.value))
		}
		if err == nil && a.found {
			err = p.target.Set(r, record.CloneValue(a.value))
		}
		switch {
		case err != nil:
			b.Refuse(i, err)
		case !a.found:
			onMissing(b, i, p.settings.Missing, "it at the service")
		}
	}
	return nil
}

// answer returns the response of the service for r, from the cache if possible.
func (p *web) answer(ctx context.Context, r *record.Record) (answer, error) {
	text, err := p.url.Append(&p.timeLimit, nil, r)
	if err != nil {
		return answer{}, fmt.Errorf("cannot make the URL: %w", err)
	}
	now := sdk.Now(ctx)
	if a, ok := p.cache.get(string(text), now); ok {
		return a, nil
	}
	a, err := p.ask(ctx, string(text))
	if err == nil {
		p.cache.put(string(text), a, now, sdk.Budget(ctx))
	}
	return a, err
}

// ask queries the service, with retries.
func (p *web) ask(ctx context.Context, text string) (answer, error) {
	if err := httpcall.CheckURL(text); err != nil {
		return answer{}, fmt.Errorf("cannot use the URL: %w", err)
	}
	got, err := p.client.Do(ctx, httpcall.Request{Method: http.MethodGet, URL: text, Header: p.header})
	if err != nil {
		return answer{}, fmt.Errorf("cannot query the service: %w", err)
	}
	if got.Status == http.StatusNotFound {
		return answer{}, nil
	}
	body, err := charset.UTF8(got.Body, charset.Of(got.Header.Get("Content-Type")))
	if err != nil {
		return answer{}, fmt.Errorf("cannot read the answer of the service: %w", err)
	}
	a := answer{found: true, value: string(body)}
	if p.settings.Body == "json" {
		if a.value, err = jsonvalue.ParseWithin(body, sdk.Budget(ctx)); err != nil {
			return answer{}, fmt.Errorf("cannot read the answer of the service: %w", err)
		}
	}
	return a, nil
}

// answer is a response of the service.
type answer struct {
	found bool
	value any
	until time.Time
}

// cache holds answers by URL. It evicts the least recently used entry first.
type cache struct {
	size    int
	bytes   int // memory of the entries
	ttl     time.Duration
	entries map[string]*list.Element // elements are *entry
	used    list.List                // most recently used first
}

type entry struct {
	url string
	answer
	bytes int
}

// entryBytes is the memory of an entry apart from its URL and value, in bytes.
const entryBytes = 256

func (c *cache) get(url string, now time.Time) (answer, bool) {
	e, ok := c.entries[url]
	if !ok {
		return answer{}, false
	}
	a := e.Value.(*entry).answer
	if !now.Before(a.until) {
		c.remove(e)
		return answer{}, false
	}
	c.used.MoveToFront(e)
	return a, true
}

// put adds a to the cache, which holds at most most bytes of answers.
func (c *cache) put(url string, a answer, now time.Time, most int) {
	n := entryBytes + len(url) + record.ValueMemory(a.value)
	if c.ttl <= 0 || n > most {
		return
	}
	if c.entries == nil {
		c.entries = map[string]*list.Element{}
	}
	for len(c.entries) >= c.size || c.bytes+n > most {
		c.remove(c.used.Back())
	}
	c.bytes += n
	a.until = now.Add(c.ttl)
	c.entries[url] = c.used.PushFront(&entry{url, a, n})
}

func (c *cache) remove(e *list.Element) {
	c.bytes -= e.Value.(*entry).bytes
	delete(c.entries, e.Value.(*entry).url)
	c.used.Remove(e)
}
