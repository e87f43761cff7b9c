package http

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/processor/jsonvalue"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
)

// page is a parsed response.
type page struct {
	payloads []record.Data
	next     string // next page; empty if this is the last one
	cursor   string // value at cursor.path
}

// take returns the unread records of a response, and prepares the next request.
func (p *poller) take(r *httpclient.Response) ([]record.Record, error) {
	if r.Status == http.StatusNotModified {
		p.rest()
		return nil, nil
	}
	pg, err := p.parse(r)
	if err != nil {
		err = fmt.Errorf("cannot use the response of %s: %w", p.url.Host, err)
		if errors.As(err, new(elsewhereError)) {
			return nil, err
		}
		p.unusable(err)
		return nil, nil
	}
	p.skips.Remove(p.response())
	var records []record.Record
	switch s := p.settings; {
	case s.CursorField != "":
		records, err = p.byField(pg)
	case s.CursorPath != "":
		records, err = p.byToken(pg)
	case s.Pages != "none":
		records, err = p.byPage(pg)
	default:
		records, err = p.whole(pg, r)
	}
	if err != nil {
		return nil, err
	}
	return p.label(records, r), nil
}

// response returns the name of the current response for the list of skipped data.
func (p *poller) response() string {
	if p.place.Page == "" {
		return "response of " + p.url.Host
	}
	return fmt.Sprintf("page %s of %s", p.place.Page, p.url.Host)
}

// unusable skips a response. The next poll repeats the same request: the response may be different by then.
func (p *poller) unusable(err error) {
	p.leaveOut(p.response(), err)
	p.rest()
}

// leaveOut reports skipped data.
func (p *poller) leaveOut(what string, err error) {
	if p.skips.Add(what, err) {
		p.log.Warn("skipping part of the server's data", "what", what, "err", err)
	}
}

// rest delays the next request until the next poll.
func (p *poller) rest() {
	p.due = time.Now().Add(p.settings.Period)
	all := int64(0)
	p.latest.Set(progress.Report{Records: &all, At: time.Now()})
	p.begin()
}

func (p *poller) label(records []record.Record, r *httpclient.Response) []record.Record {
	var all record.Metadata
	if t := r.Header.Get("Content-Type"); t != "" {
		all.Set("http.contentType", record.ValidName(t))
	}
	for _, h := range p.headers {
		for _, v := range r.Header.Values(h) {
			all.Add("http.header."+h, record.ValidName(v))
		}
	}
	all.SortRepeated()
	for i := range records {
		records[i].Operation, records[i].Metadata = record.OperationCreate, all.Clone()
	}
	return records
}

// parse parses the response according to the settings.
func (p *poller) parse(r *httpclient.Response) (pg page, err error) {
	s := p.settings
	if len(r.Body) == 0 {
		return pg, nil
	}
	if s.Records == "" && s.CursorPath == "" && s.PagesPath == "" {
		pg.payloads, err = p.payloads(r)
	} else {
		var body []byte
		if body, err = decoded(bodyJSON, r.Header.Get("Content-Type"), r.Body); err == nil {
			err = p.parseJSON(&pg, body)
		}
	}
	if err != nil {
		return pg, err
	}
	switch s.Pages {
	case "link":
		pg.next, err = p.resolve(nextLink(r.Header))
	case "page":
		if len(pg.payloads) > 0 {
			pg.next = strconv.Itoa(p.number() + 1)
		}
	}
	return pg, err
}

// recordBytes is the approximate memory of a record without its payload, in bytes.
const recordBytes = 600

func (p *poller) tooMany(n int) error {
	return fmt.Errorf("it has %d records, which need more memory than the maximum of %d MiB for a response: "+
		"request smaller pages", n, p.budget>>20)
}

// payloads returns all payloads of a response at once: the poller compares its records with those of the previous
// response.
func (p *poller) payloads(r *httpclient.Response) (all []record.Data, err error) {
	body, err := p.settings.split(r.Header.Get("Content-Type"), r.Body, p.budget, func(n int, err error) {
		p.leaveOut(fmt.Sprintf("element %d of a response of %s", n, p.url.Host), err)
	})
	if err != nil {
		return nil, err
	}
	left, n := p.budget, body.left
	for body.left > 0 {
		some, err := body.next(maxRead)
		if err != nil {
			return nil, err
		}
		for i := range some {
			m, _ := some[i].Structured()
			left -= recordBytes + record.ValueMemory(m)
		}
		if left < 0 {
			return nil, p.tooMany(n)
		}
		all = append(all, some...)
	}
	return all, nil
}

func (p *poller) parseJSON(pg *page, body []byte) error {
	s := p.settings
	value, err := jsonvalue.ParseWithin(body, p.budget)
	if err != nil {
		return fmt.Errorf("it is not JSON: %w", err)
	}
	records, ok := value, true
	if s.Records != "" {
		records, ok = at(value, s.Records)
	}
	if !ok {
		return fmt.Errorf("it has no value at records.path %s", s.Records)
	}
	if records != nil {
		if list, ok := records.([]any); ok && len(list) > p.budget/recordBytes {
			return p.tooMany(len(list))
		}
		if pg.payloads, err = payloadsOf(records); err != nil {
			return err
		}
	}
	if s.CursorPath != "" {
		pg.cursor = textAt(value, s.CursorPath)
	}
	if s.PagesPath == "" {
		return nil
	}
	pg.next = textAt(value, s.PagesPath)
	if s.PagesParam == "" || strings.Contains(pg.next, "://") {
		pg.next, err = p.resolve(pg.next)
	}
	return err
}

// resolve returns the URL of a page. It must have the same host, since requests may carry a token.
func (p *poller) resolve(reference string) (string, error) {
	if reference == "" {
		return "", nil
	}
	u, err := p.url.Parse(reference)
	if err != nil {
		return "", fmt.Errorf("the URL of its next page is invalid")
	}
	if u.Host != p.url.Host || u.Scheme != p.url.Scheme {
		return "", elsewhereError{fmt.Errorf("its next page is at %s://%s, another server, which must not get the "+
			"request", u.Scheme,
			u.Host)}
	}
	return u.String(), nil
}

// elsewhereError reports that the next page is on another server. It is permanent, since all pages of such a server
// have this problem.
type elsewhereError struct{ error }

// nextLink returns the URL with rel=next in the Link headers (RFC 8288).
func nextLink(h http.Header) string {
	for _, value := range h.Values("Link") {
		for value != "" {
			var target, params string
			_, value, _ = strings.Cut(value, "<")
			target, value, _ = strings.Cut(value, ">")
			params, _, _ = strings.Cut(value, "<")
			for param := range strings.SplitSeq(params, ";") {
				name, rel, _ := strings.Cut(strings.Trim(param, " \t,"), "=")
				if strings.EqualFold(strings.TrimSpace(name), "rel") &&
					strings.EqualFold(strings.Trim(rel, ` "`), "next") {
					return target
				}
			}
		}
	}
	return ""
}

// at returns the value at a path such as data.items.
func at(value any, path string) (any, bool) {
	for name := range strings.SplitSeq(path, ".") {
		object, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		if value, ok = object[name]; !ok {
			return nil, false
		}
	}
	return value, true
}

// textAt returns the text or number at a path; empty if there is none.
func textAt(value any, path string) string {
	v, _ := at(value, path)
	switch v := v.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case json.Number:
		return v.String()
	}
	return ""
}
