package http

import (
	"fmt"
	"math/big"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/processor/jsonvalue"
	"github.com/conduit-agent/conduit/plugins/record"
)

// run compares the records at the cursor at the beginning of a poll with those already read. If the server includes
// records that are equal to the cursor, it returns them again.
type run struct {
	left  int    // already read records that the poll has not returned yet
	seen  int    // already read records that the poll has returned
	chain string // hash of the returned records
}

// byField returns the records after the cursor, which is a field of the records.
func (p *poller) byField(pg page) ([]record.Record, error) {
	var records []record.Record
	for i, payload := range pg.payloads {
		value, hash, err := p.cursorOf(payload)
		if err != nil {
			p.leaveOut(fmt.Sprintf("record %d of a response of %s", i+1, p.url.Host), err)
			continue
		}
		if value == p.place.Cursor && p.run.left > 0 {
			p.run.left--
			p.run.seen++
			if p.run.chain = digest([]byte(p.run.chain + hash)); p.run.left == 0 && p.run.chain != p.place.Chain {
				p.restart()
				return nil, nil
			}
			continue
		}
		if p.run.left > 0 && p.run.seen > 0 {
			p.restart()
			return nil, nil
		}
		p.run.left = 0
		if p.place.N > 0 && compare(value, p.place.Cursor) < 0 {
			return nil, fmt.Errorf("record %d of the response has %s %q, less than the previous %q: the server must "+
				"return records in ascending order of %s, and only records from the value of %s",
				i+1, p.settings.CursorField, value, p.place.Cursor, p.settings.CursorField, p.settings.CursorParam)
		}
		next := p.place.counted(value, hash)
		next.N++
		// The position has no page: reading resumes with a request for the records after the cursor.
		next.Page = ""
		r := record.Record{After: payload}
		if r.Position, err = next.position(); err != nil {
			return nil, err
		}
		next.Page = p.place.Page
		p.place = next
		records = append(records, r)
	}
	if p.run.left > 0 && p.run.seen > 0 && pg.next == "" {
		p.restart()
		return nil, nil
	}
	p.leaf(pg.next)
	return records, nil
}

// restart polls again from the cursor without skipping any record, because the records already read have changed, or
// their order has.
func (p *poller) restart() {
	p.log.Warn("the records at the cursor have changed: reading them again", "cursor", p.place.Cursor)
	p.place.Count, p.place.Chain, p.place.Page = 0, "", ""
	p.begin()
}

// leaf continues with the next page. After the last page it waits for the next poll.
func (p *poller) leaf(next string) {
	if p.place.Page = next; next == "" {
		p.rest()
	}
}

// byToken returns the unread records of the page at a token, and continues with the next token.
func (p *poller) byToken(pg page) ([]record.Record, error) {
	records, err := p.unread(pg, func(i int) place {
		next := p.place
		if i == len(pg.payloads) && pg.cursor != "" && pg.cursor != p.place.Cursor {
			next.Cursor, next.Index, next.Hash = pg.cursor, 0, ""
		}
		return next
	})
	if err != nil {
		return nil, err
	}
	moved := len(records) > 0 && p.place.Index == 0
	if len(records) == 0 && pg.cursor != "" && pg.cursor != p.place.Cursor { // the whole page was read before
		p.place.Cursor, p.place.Index, p.place.Hash = pg.cursor, 0, ""
		moved = len(pg.payloads) > 0
	}
	if !moved {
		p.rest()
	}
	return records, nil
}

// byPage returns the unread records of a page, unless the page is the same as in the previous poll.
func (p *poller) byPage(pg page) ([]record.Record, error) {
	key, sum := p.place.Page, ""
	for _, payload := range pg.payloads {
		hash, err := digestOf(payload)
		if err != nil {
			return nil, err
		}
		sum = digest([]byte(sum + hash))
	}
	var records []record.Record
	if p.pages[key] != sum {
		var err error
		records, err = p.unread(pg, func(i int) place {
			next := p.place
			if i == len(pg.payloads) {
				next.Page, next.Index, next.Hash = pg.next, 0, ""
			}
			return next
		})
		if err != nil {
			return nil, err
		}
	}
	if len(p.pages) < maxPages {
		p.pages[key] = sum
	}
	p.place.Index, p.place.Hash = 0, ""
	p.leaf(pg.next)
	return records, nil
}

const maxPages = 10_000 // pages whose digests are kept

// unread returns the unread records of a page, or all records if the page has changed. after returns the place after
// record i, counted from 1, without its index and hash.
func (p *poller) unread(pg page, after func(i int) place) ([]record.Record, error) {
	hashes := make([]string, len(pg.payloads))
	for i, payload := range pg.payloads {
		var err error
		if hashes[i], err = digestOf(payload); err != nil {
			return nil, err
		}
	}
	from := p.place.Index
	if from > 0 && (from > len(hashes) || hashes[from-1] != p.place.Hash) {
		from = 0 // the page has changed
	}
	var records []record.Record
	for i := from; i < len(hashes); i++ {
		p.place.Index, p.place.Hash = i+1, hashes[i]
		p.place.N++
		next := after(i + 1)
		r := record.Record{After: pg.payloads[i]}
		var err error
		if r.Position, err = next.position(); err != nil {
			return nil, err
		}
		records = append(records, r)
		if i+1 == len(hashes) {
			p.place = next
		}
	}
	return records, nil
}

// whole returns the unread records of a response. All records of a changed response are unread.
func (p *poller) whole(pg page, r *httpclient.Response) ([]record.Record, error) {
	sum := digest(r.Body)
	if sum != p.place.Digest {
		p.place.Digest, p.place.Index = sum, 0
	}
	etag, modified := r.Header.Get("ETag"), r.Header.Get("Last-Modified")
	p.place.ETag, p.place.Modified = "", ""
	var records []record.Record
	for i := min(p.place.Index, len(pg.payloads)); i < len(pg.payloads); i++ {
		p.place.Index = i + 1
		p.place.N++
		if i+1 == len(pg.payloads) {
			p.place.ETag, p.place.Modified = etag, modified
		}
		rec := record.Record{After: pg.payloads[i]}
		var err error
		if rec.Position, err = p.place.position(); err != nil {
			return nil, err
		}
		records = append(records, rec)
	}
	p.place.ETag, p.place.Modified = etag, modified
	p.rest()
	return records, nil
}

// cursorOf returns the value of cursor.field in a record, and the hash of the record.
func (p *poller) cursorOf(payload record.Data) (value, hash string, err error) {
	var v any
	if object, ok := payload.Structured(); ok {
		v = object
	} else {
		raw, _ := payload.Raw()
		if v, err = jsonvalue.Parse(raw); err != nil {
			return "", "", fmt.Errorf("it is not JSON: %w", err)
		}
	}
	if value = textAt(v, p.settings.CursorField); value == "" {
		return "", "", fmt.Errorf("cursor.field %s must contain text or a number", p.settings.CursorField)
	}
	hash, err = digestOf(payload)
	return value, hash, err
}

// compareDigits compares two numbers exactly if they have at most 150 digits.
func compareDigits(a, b string) int {
	x, _, errX := big.ParseFloat(a, 10, 512, big.ToNearestEven)
	y, _, errY := big.ParseFloat(b, 10, 512, big.ToNearestEven)
	if errX != nil || errY != nil {
		return 0
	}
	return x.Cmp(y)
}

// compare compares two cursor values: as numbers or times if both are, otherwise as text.
func compare(a, b string) int {
	if x, err := strconv.ParseInt(a, 10, 64); err == nil {
		if y, err := strconv.ParseInt(b, 10, 64); err == nil {
			return sign(x < y, x > y)
		}
	}
	if x, err := strconv.ParseFloat(a, 64); err == nil {
		if y, err := strconv.ParseFloat(b, 64); err == nil {
			if x == y { // may differ only in digits beyond the precision of a float64
				return compareDigits(a, b)
			}
			return sign(x < y, x > y)
		}
	}
	if x, err := time.Parse(time.RFC3339Nano, a); err == nil {
		if y, err := time.Parse(time.RFC3339Nano, b); err == nil {
			return x.Compare(y)
		}
	}
	return sign(a < b, a > b)
}

func sign(less, greater bool) int {
	switch {
	case less:
		return -1
	case greater:
		return 1
	}
	return 0
}
