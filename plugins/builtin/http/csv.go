package http

import (
	"fmt"

	"github.com/conduit-agent/conduit/plugins/csv"
	"github.com/conduit-agent/conduit/plugins/record"
)

// splitCSV is split for a body of CSV.
func splitCSV(r *csv.Reader, body []byte, leave func(n int, err error)) (*payloads, error) {
	p, number := &payloads{table: r.Columns()}, 0
	if p.table == nil && len(body) > 0 {
		var header []byte
		header, body = r.Line(body)
		number++
		var err error
		if p.table, err = r.Header(header); err != nil {
			return nil, fmt.Errorf("the body is not CSV: %w", err)
		}
	}
	p.lines = body
	var line []byte
	for len(body) > 0 {
		line, body = r.Line(body)
		number++
		if p.table.Skips(line) {
			continue
		}
		_, err := p.table.Object(line)
		switch {
		case err == nil:
			p.left++
		case leave == nil:
			return nil, fmt.Errorf("record %d of the body is not CSV: %w", number, err)
		default:
			leave(number, err)
		}
	}
	return p, nil
}

// nextObjects returns the next n payloads of CSV, or all if there are fewer.
func (p *payloads) nextObjects(n int) []record.Data {
	all := make([]record.Data, 0, n)
	var line []byte
	for len(all) < n && len(p.lines) > 0 {
		line, p.lines = p.table.Line(p.lines)
		if p.table.Skips(line) {
			continue
		}
		if object, err := p.table.Object(line); err == nil { // otherwise split has left it out
			all = append(all, record.Structured(object))
		}
	}
	return all
}
