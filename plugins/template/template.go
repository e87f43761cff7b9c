// Package template runs Go templates over records within bounds: the memory and time of a template are limited, and it
// can access only its record.
//
// It provides the functions of text/template and sprig, except those that read the environment or the network.
package template

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"text/template/parse"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
)

// Bounds of an execution.
const (
	maxOutput = 16 << 20        // bytes that a template or a function may produce
	maxNodes  = 100_000         // values inside one argument or result of a function
	maxDepth  = 100             // nesting depth of such a value
	maxTime   = 2 * time.Second // checked in every iteration and every call
)

// Template is a parsed template. It is safe for concurrent use.
type Template struct {
	constant bool   // it has no actions
	text     string // text of a constant template
	direct   []part // nil: it needs text/template
	payload  bool   // see PrintsPayload
	prints   string // expression of the only action; empty if there are several
	strict   bool
	empty    string // printed by an action that prints nothing
	parts    schema.Parts
	pool     sync.Pool // of *machine
}

// Mode determines how a template handles missing values.
type Mode uint8

// The modes.
const (
	Lenient Mode = iota // a key that a map does not have prints nothing
	Strict              // a missing key is an error
	Exact               // a missing key is an error, and so is printing nil
)

// Parse parses a template for execution on every record.
func Parse(text string, mode Mode) (*Template, error) { return newTemplate(text, mode, nil) }

// newTemplate parses a template. path has the options of a path; nil: it is none.
func newTemplate(text string, mode Mode, path *pathOptions) (*Template, error) {
	t := &Template{strict: mode != Lenient}
	if !strings.Contains(text, "{{") {
		t.constant, t.text = true, text
		return t, nil
	}
	missing := "missingkey=default"
	if t.strict {
		missing = "missingkey=error"
	}
	used, err := usedFunctions(text, t.strict, path != nil)
	if err != nil {
		return nil, fmt.Errorf("cannot parse the template: %w", err)
	}
	if path != nil {
		t.empty = path.empty
		used[strftimeName] = (*machine)(nil).strftime
	}
	parsed, err := template.New("").Option(missing).Funcs(used).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("cannot parse the template: %w", syntaxFault(err))
	}
	if parsed.Tree == nil { // only definitions or comments
		t.constant = true
		return t, nil
	}
	if path != nil {
		if err := checkFormats(parsed.Tree); err != nil {
			return nil, err
		}
	}
	t.parts = partsOf(parsed)
	t.direct = compiler{t.strict, path}.parts(parsed.Root)
	t.payload = len(t.direct) == 1 && isPayload(parsed.Root)
	if len(parsed.Root.Nodes) == 1 && parsed.Root.Nodes[0].Type() == parse.NodeAction {
		t.prints = parsed.Root.Nodes[0].(*parse.ActionNode).Pipe.String()
	}
	printByText(parsed)
	guardLoops(parsed)
	t.pool.New = func() any { return newMachine(parsed, used, mode == Exact, path) }
	return t, nil
}

// Parts returns the parts of a record in which the template reads structured data.
func (t *Template) Parts() schema.Parts { return t.parts }

// PrintsPayload reports whether the output for a record with raw data in .Payload.After is this data, and nothing else.
func (t *Template) PrintsPayload() bool { return t.payload }

// Constant returns the text of a template whose output is the same for every record.
func (t *Template) Constant() (string, bool) { return t.text, t.constant }

// Append appends the output of the template for r to dst, within the time limit of the batch. On error it returns dst
// unchanged.
func (t *Template) Append(b *TimeLimit, dst []byte, r *record.Record) ([]byte, error) {
	if t.constant {
		return append(dst, t.text...), nil
	}
	if out, ok := t.appendDirect(dst, r); ok {
		return out, nil
	}
	m := t.pool.Get().(*machine)
	defer t.pool.Put(m)
	return m.run(b, dst, r)
}

func (t *Template) appendDirect(dst []byte, r *record.Record) ([]byte, bool) {
	if t.direct == nil {
		return dst, false
	}
	out := dst
	for i := range t.direct {
		p := &t.direct[i]
		var ok bool
		switch {
		case p.json != nil:
			if out, ok = p.json(out, r); !ok {
				return dst, false
			}
			continue
		case p.eval == nil:
			out = append(out, p.text...)
			continue
		}
		v, ok := p.eval(r)
		if !ok {
			return dst, false
		}
		before := len(out)
		if out, ok = v.append(out, t.strict); !ok {
			return dst, false
		}
		if len(out) == before {
			out = append(out, t.empty...)
		}
	}
	return out, true
}

// Condition is a template whose output is a boolean. It is safe for concurrent use.
type Condition struct {
	template *Template
	eval     expression // nil unless the template is a single direct-access expression
}

// ParseCondition parses a condition. It returns nil for a text that is empty or only white space: there is no condition
// then.
func ParseCondition(text string) (*Condition, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	t, err := Parse(text, Lenient)
	if err != nil {
		return nil, err
	}
	if t.constant {
		if _, err := parseBool(t.text); err != nil {
			return nil, err
		}
	}
	c := &Condition{template: t}
	if len(t.direct) == 1 {
		c.eval = t.direct[0].eval
	}
	return c, nil
}

// Parts returns the parts of a record in which the condition reads structured data.
func (c *Condition) Parts() schema.Parts { return c.template.parts }

// Match reports whether r meets the condition, within the time limit of the batch.
func (c *Condition) Match(b *TimeLimit, r *record.Record) (bool, error) {
	if c.eval != nil {
		if v, ok := c.eval(r); ok && v.kind == boolean {
			return v.n != 0, nil
		}
	}
	var small [64]byte
	out, err := c.template.Append(b, small[:0], r)
	if err != nil {
		return false, fmt.Errorf("cannot evaluate the condition: %w", err)
	}
	if len(out) == 0 {
		return false, c.template.printsNothing()
	}
	return parseBool(string(out))
}

// printsNothing returns the error for a condition without output.
func (t *Template) printsNothing() error {
	if t.prints != "" {
		return fmt.Errorf("cannot use the output of the condition: %s is empty, null or missing; where it may be, write "+
			"{{ %[1]s | default false }}", shorten(t.prints))
	}
	return errors.New("cannot use the output of the condition: it prints nothing, because a value in it is empty, null " +
		"or missing, or no branch applies; it must print true or false for every record")
}

func parseBool(s string) (bool, error) {
	b, err := strconv.ParseBool(s)
	if err != nil {
		if len(s) > 100 {
			s = s[:100] + "…"
		}
		return false, fmt.Errorf("cannot use the output of the condition, %q: it must be true or false, without "+
			"white space around it", s)
	}
	return b, nil
}
