package http

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// poller is a source that polls a URL. Read owns its fields, except latest and skips.
type poller struct {
	settings *sourceSettings
	client   *httpclient.Client
	url      *url.URL
	headers  []string // response headers that become metadata, in canonical form
	log      *slog.Logger
	pages    map[string]string // digests of the pages of the previous poll, without a cursor

	budget int // memory limit of the records of a response, in bytes
	place  place
	due    time.Time // time of the next request
	// run compares the records at the cursor with those already read, beginning with the first page of a poll.
	run   run
	since string // with cursor.field, the cursor parameter of all pages of a poll

	latest progress.Latest
	skips  progress.Skips // safe for concurrent use
}

func (p *poller) open(ctx context.Context, pos record.Position) (err error) {
	s := p.settings
	if p.place, err = parsePlace(pos); err != nil {
		return err
	}
	if len(pos) == 0 {
		p.place.Cursor = s.CursorStart
	}
	if p.url, err = httpclient.CheckURL(s.URL); err != nil {
		return err
	}
	if p.client, err = httpclient.New(&s.Auth, &s.HMAC, &s.TLS, s.RequestHeader, s.Timeout, s.MaxBody, true); err != nil {
		return err
	}
	for _, h := range s.Headers {
		if h != "" {
			p.headers = append(p.headers, http.CanonicalHeaderKey(h))
		}
	}
	p.log, p.pages, p.budget = sdk.Logger(ctx), map[string]string{}, sdk.Budget(ctx)
	p.begin()
	return nil
}

// begin starts a poll. With cursor.field, the requests for all its pages use the current value.
func (p *poller) begin() { p.run, p.since = run{left: p.place.Count}, p.place.Cursor }

func (p *poller) read(ctx context.Context) ([]record.Record, error) {
	for {
		if err := common.Sleep(ctx, time.Until(p.due)); err != nil {
			return nil, err
		}
		r, err := p.fetch(ctx)
		if errors.Is(err, httpclient.ErrTooLarge) {
			p.unusable(err)
			continue
		}
		if err != nil {
			return nil, err
		}
		records, err := p.take(r)
		if err != nil || len(records) > 0 {
			return records, err
		}
	}
}

// fetch sends the next request and retries after temporary failures.
func (p *poller) fetch(ctx context.Context) (*httpclient.Response, error) {
	var again common.Backoff
	for {
		target, header, err := p.request()
		if err != nil {
			return nil, err
		}
		r, err := p.client.Do(ctx, p.settings.Method, target, []byte(p.settings.Request), header)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, httpclient.ErrTooLarge):
			return nil, fmt.Errorf("%w: set body.maxBytes, or request smaller pages", err)
		case err == nil && !httpclient.Passes(r.Status):
			p.latest.Note("")
			return r, p.refused(r)
		case err == nil:
			err = p.client.ResponseError(r)
		}
		pause := httpclient.PauseAfter(r, &again)
		p.latest.Note(err.Error())
		p.log.Warn("cannot poll, retrying", "err", err, "tries", again.Tries, "pause",
			pause.Round(time.Millisecond).String())
		if err := common.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

func (p *poller) progress() progress.Report {
	r := p.latest.Report()
	r.Skipped = p.skips.List()
	return r
}

// refused returns why the response cannot be used; nil if it can.
func (p *poller) refused(r *httpclient.Response) error {
	switch {
	case r.Status == http.StatusNotModified, r.Status/100 == 2:
		return nil
	case r.Status == http.StatusGone && p.place.N > 0:
		return fmt.Errorf("records were missed: %w: the server no longer has the data at %q, where polling must "+
			"resume; start the pipeline from the beginning, or set another cursor.initial",
			p.client.ResponseError(r), p.place.Cursor+p.place.Page)
	}
	return fmt.Errorf("cannot poll: %w", p.client.ResponseError(r))
}

// request returns the URL and the headers of the next request.
func (p *poller) request() (target string, header http.Header, err error) {
	s, u := p.settings, *p.url
	switch page := p.place.Page; {
	case strings.Contains(page, "://"):
		return page, nil, nil // it contains the cursor
	case s.Pages == "page":
		u.RawQuery = withParam(u.RawQuery, s.PagesParam, strconv.Itoa(p.number()))
	case page != "":
		u.RawQuery = withParam(u.RawQuery, s.PagesParam, page)
	}
	cursor := p.place.Cursor
	if s.CursorField != "" {
		cursor = p.since
	}
	if s.CursorParam != "" && cursor != "" {
		u.RawQuery = withParam(u.RawQuery, s.CursorParam, cursor)
	}
	header = http.Header{}
	if p.place.ETag != "" {
		header.Set("If-None-Match", p.place.ETag)
	} else if p.place.Modified != "" {
		header.Set("If-Modified-Since", p.place.Modified)
	}
	return u.String(), header, nil
}

// number returns the number of the next page.
func (p *poller) number() int {
	n, _ := strconv.Atoi(p.place.Page)
	return max(1, n)
}

// withParam returns the query with the parameter set. It replaces parameters with the same name.
func withParam(query, name, value string) string {
	values, _ := url.ParseQuery(query)
	values.Set(name, value)
	return values.Encode()
}

func (p *poller) ack([]record.Position) error { return nil }

func (p *poller) close(context.Context) error {
	if p.client != nil {
		p.client.Close()
	}
	return nil
}
