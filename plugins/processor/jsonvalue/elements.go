package jsonvalue

import (
	"errors"
	"math"
	"strings"

	"github.com/conduit-agent/conduit/plugins/charset"
)

// Elements are the elements of a JSON array, or a single JSON value, decoded one at a time.
type Elements struct {
	Left int // number of remaining elements

	parser parser
	array  bool
	leave  func(n int, err error)
	left   []int // numbers of the omitted elements
	n      int   // number of the next element
}

// ParseElements checks the whole text and returns its elements. Each may take at most limit bytes of memory. Larger
// elements of an array are omitted, and leave is called with their numbers, starting at 1. If leave is nil, they are an
// error.
func ParseElements(b []byte, limit int, leave func(n int, err error)) (*Elements, error) {
	b, err := charset.UTF8(b, "")
	if err != nil {
		return nil, err
	}
	e := &Elements{parser: parser{text: string(b), skip: true, limit: limit}, leave: leave}
	p := &e.parser
	p.space()
	start := p.at
	e.array = p.peek() == '['
	err = e.check()
	if p.space(); err == nil && p.at < len(p.text) {
		err = errSyntax
	}
	if errors.Is(err, errSyntax) {
		return nil, explain(b)
	}
	p.at, p.skip = start, false
	if e.array {
		p.at++
	}
	return e, err
}

// check parses and counts all elements.
func (e *Elements) check() error {
	p := &e.parser
	if !e.array {
		e.Left, p.left = 1, p.limit
		_, err := p.value(0)
		return err
	}
	p.at++
	if p.space(); p.peek() == ']' {
		p.at++
		return nil
	}
	for n := 1; ; n++ {
		p.space()
		p.left = p.limit
		start := p.at
		_, err := p.value(1)
		switch {
		case errors.Is(err, ErrMemory) && e.leave != nil:
			p.at, p.left = start, math.MaxInt
			if _, skipped := p.value(1); skipped != nil {
				return skipped
			}
			e.left = append(e.left, n)
			e.leave(n, err)
		case err != nil:
			return err
		default:
			e.Left++
		}
		if more, err := p.more(']'); !more {
			return err
		}
	}
}

// Next returns the next element. It must be called only while Left is not 0.
func (e *Elements) Next() (any, error) {
	p := &e.parser
	p.space()
	p.left = p.limit
	depth := 0
	if e.array {
		depth = 1
	}
	for e.n++; len(e.left) > 0 && e.left[0] == e.n; e.n++ {
		p.skip, p.left = true, math.MaxInt
		_, err := p.value(depth)
		if err == nil {
			_, err = p.more(']')
		}
		if err != nil {
			return nil, err
		}
		p.space()
		p.skip, p.left, e.left = false, p.limit, e.left[1:]
	}
	v, err := p.value(depth)
	if e.Left--; err == nil && e.array {
		_, err = p.more(']')
	}
	return v, err
}

// skipEscaped skips to the end of a string with escapes.
func (p *parser) skipEscaped() error {
	for p.at < len(p.text) {
		c := p.text[p.at]
		p.at++
		switch {
		case c == '"':
			return nil
		case c < ' ':
			return errSyntax
		case c != '\\':
			continue
		}
		if p.peek() == 'u' {
			if _, err := p.unicode(); err != nil {
				return err
			}
			continue
		}
		if p.at == len(p.text) || strings.IndexByte(`"\/bfnrt`, p.peek()) < 0 {
			return errSyntax
		}
		p.at++
	}
	return errSyntax
}
