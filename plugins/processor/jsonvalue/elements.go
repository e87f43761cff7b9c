package jsonvalue

import (
	"errors"
	"strings"
)

// Elements are the elements of a JSON array, or a single JSON value, decoded one at a time.
type Elements struct {
	Left int // elements that remain

	parser parser
	array  bool
}

// ParseElements checks a whole text and returns its elements. Each may take up to limit bytes of memory.
func ParseElements(b []byte, limit int) (*Elements, error) {
	e := &Elements{parser: parser{text: string(b), skip: true, limit: limit}}
	p := &e.parser
	p.space()
	start := p.at
	e.array = p.peek() == '['
	err := e.check()
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

// check goes through all elements and counts them.
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
	for {
		p.space()
		p.left = p.limit
		if _, err := p.value(1); err != nil {
			return err
		}
		e.Left++
		if more, err := p.more(']'); !more {
			return err
		}
	}
}

// Next returns the next element. It is called while there are some left.
func (e *Elements) Next() (any, error) {
	p := &e.parser
	p.space()
	p.left = p.limit
	depth := 0
	if e.array {
		depth = 1
	}
	v, err := p.value(depth)
	if e.Left--; err == nil && e.array {
		_, err = p.more(']')
	}
	return v, err
}

// skipEscaped goes to the end of a text with escapes.
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
			if _, ok := p.unicode(); !ok {
				return errSyntax
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
