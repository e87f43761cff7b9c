// Package csv reads CSV.
package csv

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/texttype"
)

// KeyError is the key of the metadata for why a source left a line as text.
const KeyError = "csv.error"

// Cause returns the reason in the metadata why a source left a line as text, as a clause that ends the error of a
// destination that needs columns. It returns "" if there is none.
func Cause(m record.Metadata) string {
	if why := m.Get(KeyError); why != "" {
		return "; the source could not read it as CSV (metadata " + KeyError + "): " + why
	}
	return ""
}

// Settings are the settings of a source that reads CSV.
type Settings struct {
	// Comma list of the names of the columns of CSV, in their order. Columns without a name are left out. Empty: the
	// first line has the names.
	Columns []string `json:"csv.columns"`
	// Text between columns of CSV; tab and space stand for these characters.
	Delimiter string `json:"csv.delimiter" default:","`
	// Text around columns of CSV that hold delimiters, line breaks or quotes, which are doubled in them; none for none.
	Quote string `json:"csv.quote" default:"\""`
	// Comma list of name:type for columns of CSV, with * for all other names. The types are string, int, float, bool,
	// time (RFC 3339, or Unix nanoseconds) and auto, which makes numbers of JSON's numbers and booleans of true and
	// false. Without a type a value is a string. An empty text is null, unless it is a string.
	Types []string `json:"csv.types"`
}

// A Reader reads tables of CSV. It is safe for concurrent use.
type Reader struct {
	dialect Dialect
	types   texttype.Types
	columns *Table // nil: each table begins with a header
}

// NewReader checks the settings, and returns a reader.
func NewReader(s *Settings) (*Reader, error) {
	r := &Reader{dialect: Dialect{Delimiter: separator(s.Delimiter), Quote: separator(s.Quote)}}
	if part, problem := r.dialect.Problem(); problem != "" {
		return nil, sdk.SettingError{Setting: "csv." + part, Message: problem}
	}
	var names []string
	if len(s.Columns) > 0 {
		names = s.Columns
	}
	var err error
	if r.types, err = texttype.Parse("csv.types", s.Types, names); err != nil || names == nil {
		return r, err
	}
	if r.columns, err = r.table(names); err != nil {
		return nil, sdk.SettingError{Setting: "csv.columns", Message: err.Error()}
	}
	return r, nil
}

func separator(setting string) string {
	switch setting {
	case "tab":
		return "\t"
	case "space":
		return " "
	case "none":
		return ""
	}
	return setting
}

// Columns returns the table with the columns of the settings; nil if tables begin with a header.
func (r *Reader) Columns() *Table { return r.columns }

// A Table has the columns of lines.
type Table struct {
	*Reader
	names []string
	reads []texttype.Read
}

func (r *Reader) table(names []string) (*Table, error) {
	t := &Table{Reader: r, names: names, reads: make([]texttype.Read, len(names))}
	seen := make(map[string]bool, len(names))
	for i, name := range names {
		if name != "" && seen[name] {
			return nil, errors.New(texttype.Quoted(name) + " is the name of two columns")
		}
		seen[name], t.reads[i] = true, r.types.Reader(name)
	}
	return t, nil
}

// maxColumns bounds the columns of a header, which the sender of a text chooses.
const maxColumns = 10_000

// Header returns the table whose columns a line has.
func (r *Reader) Header(line []byte) (*Table, error) {
	var names []string
	for c := r.dialect.Columns(withoutReturn(line)); !c.Ended(); {
		name, err := c.Next()
		if err != nil {
			return nil, fmt.Errorf("column %d of the header: %w", len(names)+1, err)
		}
		if names = append(names, name); len(names) > maxColumns {
			return nil, fmt.Errorf("the header has more than %d columns", maxColumns)
		}
	}
	if !slices.ContainsFunc(names, func(name string) bool { return name != "" }) {
		return nil, errors.New("the header has no names")
	}
	t, err := r.table(names)
	if err != nil {
		return nil, fmt.Errorf("the header is not usable: %w", err)
	}
	return t, nil
}

// Object returns the object for a line. It has as many columns as the table.
func (t *Table) Object(line []byte) (map[string]any, error) {
	made, n := make(map[string]any, len(t.names)), 0
	for c := t.dialect.Columns(withoutReturn(line)); !c.Ended(); n++ {
		column, err := c.Next()
		if err != nil {
			return nil, fmt.Errorf("column %d: %w", n+1, err)
		}
		if n == len(t.names) {
			return nil, fmt.Errorf("it has more than %d columns", n)
		}
		if name := t.names[n]; name != "" {
			if made[name], err = t.reads[n].Value(name, column); err != nil {
				return nil, err
			}
		}
	}
	if n < len(t.names) {
		return nil, fmt.Errorf("it has %d of %d columns", n, len(t.names))
	}
	return made, nil
}

// Skips reports whether a line is no record: an empty one, in a table with several columns.
func (t *Table) Skips(line []byte) bool {
	return len(t.names) > 1 && len(bytes.TrimRight(line, "\r")) == 0
}

// withoutReturn returns a line without the carriage return at its end.
func withoutReturn(line []byte) string { return string(bytes.TrimSuffix(line, []byte{'\r'})) }

// Line returns the first line of text without its newline, and the rest. A line break between quotes does not end it.
func (r *Reader) Line(text []byte) (line, rest []byte) {
	quote, quotes := []byte(r.dialect.Quote), 0
	for end := 0; end < len(text); {
		i := bytes.IndexByte(text[end:], '\n')
		if i < 0 {
			break
		}
		if len(quote) > 0 {
			quotes += bytes.Count(text[end:end+i], quote)
		}
		if end += i + 1; quotes%2 == 0 {
			return text[:end-1], text[end:]
		}
	}
	return bytes.TrimSuffix(text, []byte{'\n'}), nil
}
