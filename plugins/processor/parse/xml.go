package parse

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/charset"
	"github.com/conduit-agent/conduit/plugins/texttype"
)

// xmlDocument parses an XML document.
type xmlDocument struct {
	options
	// Text before the name of an attribute; none for none.
	Attributes string `json:"attribute-prefix" default:"@"`
	// Name of the member for the text of an element that has attributes or elements, too.
	Text string `json:"text-name" default:"#text" validate:"required"`
	// Comma list of the names of elements that are always lists, also when there is one.
	Lists []string `json:"lists"`
	typed
}

// deepest is how many elements may be in each other. Lists come between them, and records have a depth that every
// destination can write.
const deepest = 400

// element is an element that has not ended.
type element struct {
	name    string
	members map[string]any
	text    strings.Builder
}

func (x *xmlDocument) compile() (parseFunc, error) {
	all, err := x.compileTypes(nil)
	if err != nil {
		return nil, err
	}
	prefix := separator(x.Attributes)
	return func(ctx context.Context, v any, m *memory) (any, error) {
		text, err := textOf(v)
		if err != nil {
			return nil, err
		}
		r := xmlReader{xmlDocument: x, types: all, prefix: prefix, memory: m,
			decoder: xml.NewDecoder(strings.NewReader(text))}
		r.decoder.CharsetReader = r.convert
		for n := 0; ; n++ {
			if n%1024 == 0 && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			token, err := r.decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				err = r.token(token)
			}
			if err != nil {
				return nil, r.place(err)
			}
		}
		if r.root == nil {
			return nil, errors.New("it has no element")
		}
		return r.root, nil
	}, nil
}

// xmlReader makes the result of a document.
type xmlReader struct {
	*xmlDocument
	types   texttype.Types
	prefix  string
	memory  *memory
	decoder *xml.Decoder
	open    []*element
	root    map[string]any
}

// place adds the line and column to an error.
func (r *xmlReader) place(err error) error {
	var wrong *xml.SyntaxError
	if errors.As(err, &wrong) {
		err = errors.New(wrong.Msg)
	}
	line, column := r.decoder.InputPos()
	return fmt.Errorf("line %d, column %d: %w", line, column, err)
}

// convert makes UTF-8 of a document that declares another encoding.
func (r *xmlReader) convert(label string, in io.Reader) (io.Reader, error) {
	document, err := io.ReadAll(in)
	if err == nil {
		err = r.memory.take(3 * len(document))
	}
	if err == nil {
		document, err = charset.UTF8(document, label)
	}
	return bytes.NewReader(document), err
}

func (r *xmlReader) token(token xml.Token) error {
	switch t := token.(type) {
	case xml.StartElement:
		return r.start(t)
	case xml.EndElement:
		return r.end()
	case xml.CharData:
		if len(r.open) == 0 {
			if len(bytes.TrimSpace(t)) > 0 {
				return errors.New("there is text outside of the document's element")
			}
			return nil
		}
		if err := r.memory.take(len(t)); err != nil {
			return err
		}
		r.open[len(r.open)-1].text.Write(t)
	}
	return nil
}

func (r *xmlReader) start(t xml.StartElement) error {
	switch {
	case r.root != nil:
		return fmt.Errorf("the document ended before the element %s", texttype.Quoted(t.Name.Local))
	case len(r.open) == deepest:
		return fmt.Errorf("more than %d elements are in each other", deepest)
	}
	if err := r.memory.take(memberBytes + len(t.Name.Local)); err != nil {
		return err
	}
	e := &element{name: t.Name.Local}
	r.open = append(r.open, e)
	for _, a := range t.Attr {
		if a.Name.Space == "xmlns" || a.Name.Space == "" && a.Name.Local == "xmlns" {
			continue
		}
		name := r.prefix + a.Name.Local
		if err := r.memory.take(memberBytes + len(name) + len(a.Value)); err != nil {
			return err
		}
		f := r.types.Reader(name)
		v, err := f.Value(name, a.Value)
		if err != nil {
			return err
		}
		if err := e.add(name, v, "refuse"); err != nil {
			return err
		}
	}
	return nil
}

func (r *xmlReader) end() error {
	e := r.open[len(r.open)-1]
	r.open = r.open[:len(r.open)-1]
	text := strings.TrimSpace(e.text.String())
	var made any
	var err error
	switch {
	case e.members == nil && text == "": // null
	case e.members == nil:
		f := r.types.Reader(e.name)
		made, err = f.Value(e.name, text)
	default:
		made = e.members
		if text != "" {
			f := r.types.Reader(r.Text)
			var v any
			if v, err = f.Value(r.Text, text); err == nil {
				err = e.add(r.Text, v, "refuse")
			}
		}
	}
	if err != nil {
		return err
	}
	parent := &element{members: map[string]any{}}
	if len(r.open) > 0 {
		parent = r.open[len(r.open)-1]
	} else {
		r.root = parent.members
	}
	if slices.Contains(r.Lists, e.name) {
		if _, ok := parent.members[e.name]; !ok {
			made = []any{made}
		}
	}
	return parent.add(e.name, made, "list")
}

// add adds a member. An attribute may have the name of an element, if attributes have no prefix.
func (e *element) add(name string, v any, duplicates string) error {
	if e.members == nil {
		e.members = map[string]any{}
	}
	return add(e.members, name, v, duplicates)
}
