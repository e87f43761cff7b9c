// Package httpsink is the part that destinations share which send records in batches over HTTP: batches, compression,
// retries, the search for a refused record, and the outcome of each record. A Dialect has what differs between systems.
package httpsink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Settings are the settings of every such destination.
type Settings struct {
	// Headers of the requests, by name.
	Headers map[string]string `json:"headers" literal:"true"`
	// Compression of bodies.
	Compression string `json:"compression" default:"none" validate:"inclusion=none|gzip"`
	// Maximum number of records in a request.
	MaxRecords int `json:"batch.maxRecords" default:"1000" validate:"gt=0"`
	// Maximum size in bytes of a body with several records, before compression.
	MaxBytes int `json:"batch.maxBytes" default:"5242880" validate:"gt=0"`
	// Timeout of a request.
	Timeout time.Duration `json:"timeout" default:"30s" validate:"gt=0"`
	// Time for which records that fail temporarily are sent again. After that the pipeline fails and is restarted with
	// backoff.
	RetryFor time.Duration `json:"retry.timeout" default:"1m" validate:"gt=-1"`

	httpclient.Auth
	common.TLS
}

// Check returns the first setting that is invalid by itself.
func (s *Settings) Check() error {
	if err := s.CheckHeaders(s.Headers); err != nil {
		return err
	}
	if s.Token != "" && s.Username != "" {
		return sdk.SettingError{Setting: "auth.token", Message: "cannot be used with auth.username: remove one of them"}
	}
	_, err := s.TLS.Client()
	return err
}

// Item is an encoded record.
type Item struct {
	Text []byte
	// Key is equal for items that change the same thing at the server, whose order matters. "" stands for a thing that
	// no other item changes.
	Key string
	// Apart reports whether the item must not be in one request with the items before it.
	Apart bool
}

// Dialect defines how a system receives records.
type Dialect interface {
	// Begin is called at the beginning of a Write, before the records are encoded.
	Begin(ctx context.Context)
	// Encode encodes a record, appending to dst for the text. id is the same each time the record is sent. An error
	// refuses the record.
	Encode(dst []byte, r *record.Record, id common.RecordID) (Item, error)
	// Body returns the body of the request with these items, in their order. It does not share memory with them.
	Body(items []Item) []byte
	// Outcomes returns the outcome of each of n items in a response with a status of 2xx: nil if it is written, the
	// result of Temporary if the same item may be written later, the result of sdk.Unavailable if the item is not to
	// blame, or why the server refuses the record. The second result reports an incomprehensible response.
	Outcomes(r *httpclient.Response, n int) ([]error, error)
}

// Concat returns a body with the texts of the items between begin and end, separated by sep.
func Concat(items []Item, begin, sep, end string) []byte {
	size := len(begin) + len(end) + len(items)*len(sep)
	for _, item := range items {
		size += len(item.Text)
	}
	body := append(make([]byte, 0, size), begin...)
	for i, item := range items {
		if i > 0 {
			body = append(body, sep...)
		}
		body = append(body, item.Text...)
	}
	return append(body, end...)
}

// Accepted returns the outcomes of n items that a response with a status of 2xx reports as written together. The error
// is for a page, which some other program at the URL responds with.
func Accepted(r *httpclient.Response, n int) ([]error, error) {
	if strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") ||
		bytes.HasPrefix(bytes.TrimSpace(r.Body), []byte("<")) {
		return nil, errors.New("it is a page: check url")
	}
	return make([]error, n), nil
}

// Temporary marks the outcome of an item that may be written when it is sent again.
func Temporary(err error) error { return temporary{err} }

type temporary struct{ error }

func (t temporary) Unwrap() error { return t.error }

// Sink sends records to a URL.
type Sink struct {
	Client *httpclient.Client
	// Probe reports whether a server of the dialect responds at url. nil: only a successful request shows that.
	Probe func(ctx context.Context) bool
	// Denies returns why a response without success is not the fault of a record, with the remedy; nil otherwise. nil:
	// only the status shows that.
	Denies func(r *httpclient.Response) error
	// Confirm waits until the server has stored the accepted items. After an error the request is sent again. nil: a
	// successful response says that they are stored.
	Confirm func(ctx context.Context, r *httpclient.Response) error
	// Judge returns the outcome of an item that r refuses, which is the response to a request with this item only: nil
	// if the item counts as written, or else an error such as refusal. unsure reports that the server may have written
	// the item before, with a request that failed. known reports that only a server of the dialect responds like that.
	// nil: the outcome is refusal, and nothing is known.
	Judge func(item Item, r *httpclient.Response, unsure bool, refusal error) (known bool, outcome error)

	// Partial returns the outcomes of the items of a request that r refuses, as Outcomes does, if r says enough about
	// them; nil otherwise. nil: r refuses all items or says nothing.
	Partial func(items []Item, r *httpclient.Response) []error

	url, contentType string

	settings *Settings
	dialect  Dialect
	ids      common.RecordIDs
	known    known
	works    bool   // url has responded like a server of the dialect
	text     []byte // buffer of the items
}

// maxAnswer is the maximum size of a response in bytes.
const maxAnswer = 8 << 20

// maxKept is the maximum size in bytes of a buffer that is kept for the next request.
const maxKept = 1 << 20

// New returns a sink that sends bodies with this Content-Type to url.
func New(s *Settings, d Dialect, url, contentType string) (*Sink, error) {
	c, err := httpclient.New(&s.Auth, new(httpclient.HMAC), &s.TLS, s.Headers, s.Timeout, maxAnswer, false)
	if err != nil {
		return nil, err
	}
	return &Sink{Client: c, url: url, contentType: contentType, settings: s, dialect: d}, nil
}

// Write sends the records in order. It returns after the first one that is refused. The outcomes of later records of
// the same request are kept for the next call: these records are not sent again.
func (s *Sink) Write(ctx context.Context, records []record.Record) (n int, err error) {
	s.dialect.Begin(ctx)
	ids := s.ids.IDs(records)
	defer func() { s.ids.Wrote(n, err) }()
	if n, err = s.known.replay(records); err != nil {
		return n, err
	}
	for n < len(records) {
		items, unfit := s.encode(records[n:], ids[n:])
		outcomes, err := s.send(ctx, items)
		refused := slices.IndexFunc(outcomes, func(err error) bool { return err != nil })
		if refused >= 0 {
			s.known.keep(records[n+refused+1:n+len(outcomes)], outcomes[refused+1:])
			return n + refused, outcomes[refused]
		}
		if n += len(outcomes); err == nil {
			err = unfit
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// pending is an item that is not settled, or an item with its outcome.
type pending struct {
	Item
	settled bool
	unsure  bool  // a request with the item has failed
	outcome error // nil: written
	status  int   // of the response that refused a request with this item only
}

// suspect reports whether url may be to blame instead of the item: some servers refuse any request to a wrong path with
// 400.
func (s *Sink) suspect(item *pending) bool {
	return !s.works && item.status != 0 && item.status != http.StatusRequestEntityTooLarge
}

// encode returns the items of the first records, as many as fit into one request. The error refuses the record that
// follows them.
func (s *Sink) encode(records []record.Record, ids []common.RecordID) (items []*pending, err error) {
	if s.text = s.text[:0]; cap(s.text) > maxKept {
		s.text = nil
	}
	for i := range records {
		if len(items) == s.settings.MaxRecords {
			return items, nil
		}
		start := len(s.text)
		item, err := s.dialect.Encode(s.text, &records[i], ids[i])
		if err != nil {
			return items, err
		}
		if len(items) > 0 && (item.Apart || len(item.Text) > s.settings.MaxBytes) {
			return items, nil
		}
		// A later Encode may move the buffer; the items keep the memory to which they refer.
		s.text = item.Text
		item.Text = item.Text[start:len(item.Text):len(item.Text)]
		items = append(items, &pending{Item: item})
	}
	return items, nil
}

// send sends the items and returns the outcomes of the first ones. The error says why those of the others are
// unknown; it is not the fault of a record.
func (s *Sink) send(ctx context.Context, items []*pending) ([]error, error) {
	if len(items) == 0 {
		return nil, nil
	}
	err := s.deliver(ctx, items)
	if s.Probe != nil && slices.ContainsFunc(items, s.suspect) {
		s.works = s.Probe(ctx)
	}
	outcomes := make([]error, 0, len(items))
	for _, item := range items {
		if s.suspect(item) {
			err = fmt.Errorf("no request has succeeded yet, so url may be wrong: %w", item.outcome)
			break
		}
		if !item.settled {
			break
		}
		outcomes = append(outcomes, item.outcome)
	}
	if err != nil {
		err = sdk.Unavailable(fmt.Errorf("cannot send records: %w", err))
	}
	return outcomes, err
}

// deliver settles the items. When the server refuses a request as a whole, deliver sends smaller ones to find the
// records to blame, and after that larger ones again. Where several records in a row are refused, it sends single ones:
// each request with a refused record settles that record.
func (s *Sink) deliver(ctx context.Context, items []*pending) error {
	size, refusedAlone := len(items), 0
	for len(items) > 0 {
		n := min(size, len(items))
		rest, r, err := s.together(ctx, items[:n])
		switch items = slices.Concat(rest, items[n:]); {
		case err != nil:
			return err
		case len(rest) == 0:
			size, refusedAlone = 2*n, 0
		case len(rest) > 1:
			size = len(rest) / 2
		default:
			s.refuse(rest[0], r)
			items = items[1:]
			if refusedAlone++; refusedAlone == 1 {
				size = 2
			} else {
				size = 1
			}
		}
	}
	return nil
}

// together settles the items, and sends all unsettled ones in one request. It returns the items of a request that the
// server refuses as a whole, with the response.
func (s *Sink) together(ctx context.Context, items []*pending) ([]*pending, *httpclient.Response, error) {
	retry := s.newRetry()
	for {
		r, outcomes, err := s.try(ctx, items)
		switch {
		case err != nil:
			for _, item := range items {
				item.unsure = true
			}
		case outcomes == nil:
			return items, r, nil
		default:
			var rest []*pending
			if rest, err = settle(items, outcomes); len(rest) == 0 {
				return nil, nil, err
			}
			if len(rest) < len(items) { // the server makes progress
				retry = s.newRetry()
			}
			items = rest
		}
		if err := retry.wait(ctx, r, err); err != nil {
			return nil, nil, err
		}
	}
}

// refuse settles an item that the server refused, after a request with this item only.
func (s *Sink) refuse(item *pending, r *httpclient.Response) {
	item.settled, item.status = true, r.Status
	item.outcome = fmt.Errorf("the server refused the record: %w", s.Client.ResponseError(r))
	if s.Judge == nil {
		return
	}
	var known bool
	if known, item.outcome = s.Judge(item.Item, r, item.unsure, item.outcome); known {
		s.works = true
	}
}

// try sends the items once. Without an error it returns their outcomes, or no outcomes if the response blames the
// content of the request.
func (s *Sink) try(ctx context.Context, items []*pending) (*httpclient.Response, []error, error) {
	texts := make([]Item, len(items))
	for i, item := range items {
		texts[i] = item.Item
	}
	r, err := s.do(ctx, http.MethodPost, s.url, s.contentType, s.dialect.Body(texts))
	if err != nil {
		return r, nil, err
	}
	if r.Status/100 != 2 {
		if s.Partial != nil && len(items) > 1 {
			outcomes := s.Partial(texts, r)
			s.works = s.works || outcomes != nil
			return r, outcomes, nil
		}
		return r, nil, nil
	}
	outcomes, err := s.dialect.Outcomes(r, len(items))
	if err != nil {
		return r, nil, fmt.Errorf("cannot understand the response of the server: %w", err)
	}
	s.works = true
	if s.Confirm != nil {
		if err := s.Confirm(ctx, r); err != nil {
			return nil, nil, err
		}
	}
	return r, outcomes, nil
}

// settle records the outcomes and returns the items to send again, with the reason: those that failed temporarily, and
// later ones with the same keys, so that the last item of a key counts at the server. If the server was unavailable for
// an item, settle returns no items and that error, because the item is not to blame.
func settle(items []*pending, outcomes []error) (again []*pending, err error) {
	var keys map[string]bool
	var reason, unavailable error
	for i, item := range items {
		err, isTemporary := outcomes[i], false
		if t := (temporary{}); errors.As(err, &t) {
			isTemporary, err, reason = true, t.error, t.error
		}
		if unavailable == nil && isUnavailable(err) {
			unavailable = err
		}
		item.settled, item.outcome = true, err
		if isTemporary || keys[item.Key] || isUnavailable(err) {
			item.settled = false
			again = append(again, item)
			if item.Key != "" {
				if keys == nil {
					keys = map[string]bool{}
				}
				keys[item.Key] = true
			}
		}
	}
	if unavailable != nil {
		return nil, unavailable
	}
	return again, reason
}

func isUnavailable(err error) bool {
	var l interface{ Lost() bool }
	return errors.As(err, &l) && l.Lost()
}

// do sends one request. Without an error the response has a status of 2xx, or one that blames the content of the
// request. A permanent error, for which no retry helps, is a fatal.
func (s *Sink) do(
	ctx context.Context, method, url, contentType string, body []byte,
) (*httpclient.Response, error) {
	header := http.Header{}
	header.Set("Content-Type", contentType)
	if s.settings.Compression == "gzip" {
		header.Set("Content-Encoding", "gzip")
		var err error
		if body, err = httpclient.Compress(body); err != nil {
			return nil, fatal{err}
		}
	}
	r, err := s.Client.Do(ctx, method, url, body, header)
	if err == nil && r.Status/100 != 2 && s.Denies != nil {
		if why := s.Denies(r); why != nil {
			return r, fatal{why}
		}
	}
	switch {
	case err != nil:
		return r, err
	case r.Status/100 == 2, httpclient.Blames(r.Status) && !httpclient.Passes(r.Status):
		return r, nil
	case httpclient.Passes(r.Status):
		return r, s.Client.ResponseError(r)
	}
	return r, fatal{fmt.Errorf("%w%s", s.Client.ResponseError(r), remedies[r.Status])}
}

// remedies are the things to change after a response that does not blame the records.
var remedies = map[int]string{
	http.StatusUnauthorized: ": check the settings auth.*, and that the token or password is still valid",
	http.StatusForbidden:    ": grant the user or token of the settings auth.* the right to write",
	http.StatusNotFound:     ": check the path in url",
}

// fatal marks an error that a retry of the request cannot fix.
type fatal struct{ error }

func (f fatal) Unwrap() error { return f.error }

// Request sends a request apart from the records, and retries after temporary failures. Without an error the response
// has a status of 2xx.
func (s *Sink) Request(
	ctx context.Context, method, url, contentType string, body []byte,
) (*httpclient.Response, error) {
	for retry := s.newRetry(); ; {
		r, err := s.do(ctx, method, url, contentType, body)
		if err == nil && r.Status/100 != 2 {
			err = fatal{s.Client.ResponseError(r)}
		}
		if err == nil {
			return r, nil
		}
		if err := retry.wait(ctx, r, err); err != nil {
			return nil, err
		}
	}
}

// retry waits between the attempts of something.
type retry struct {
	common.Backoff
	begin time.Time
	limit time.Duration
}

func (s *Sink) newRetry() *retry { return &retry{begin: time.Now(), limit: s.settings.RetryFor} }

// wait waits until the next attempt. It returns an error if there is none: err is fatal, the time is over, or ctx
// ends.
func (t *retry) wait(ctx context.Context, r *httpclient.Response, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if f := (fatal{}); errors.As(err, &f) {
		return f.error
	}
	pause := httpclient.PauseAfter(r, &t.Backoff)
	if time.Since(t.begin)+pause > t.limit {
		return fmt.Errorf("%w (the last of %d tries)", err, t.Tries)
	}
	sdk.Logger(ctx).Warn("cannot send a request, retrying", "err", err, "tries", t.Tries, "pause",
		pause.Round(time.Millisecond).String())
	return common.Sleep(ctx, pause)
}
