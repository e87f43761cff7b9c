package parse

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	csvtext "github.com/conduit-agent/conduit/plugins/csv"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/texttype"
)

// csv parses a line of CSV by RFC 4180.
type csv struct {
	options
	// Comma list of the names of the columns, in their order. Columns without a name are left out.
	Columns []string `json:"columns" validate:"required"`
	// Text between columns; tab and space stand for these characters.
	Delimiter string `json:"delimiter" default:","`
	// Text around columns that hold delimiters, line breaks or quotes, which are doubled in them; none for none.
	Quote string `json:"quote" default:"\""`
	// Whether a quote may stand inside a column without quotes, and a single quote inside one with quotes.
	Lazy bool `json:"lazy" default:"false"`
	// Whether spaces and tabs around columns are removed, outside quotes.
	Trim bool `json:"trim" default:"false"`
	// Handling of a text with too few columns: refuse makes it an error, null, in quotes in YAML, sets the missing ones
	// to null, and omit leaves them out.
	Missing string `json:"missing" default:"refuse" validate:"inclusion=refuse|null|omit"`
	// Handling of a text with too many columns: refuse makes it an error, drop leaves the surplus columns out, and keep
	// names them by their number, which begins with 1.
	Extra string `json:"extra" default:"refuse" validate:"inclusion=refuse|drop|keep"`
	typed

	reads   []texttype.Read
	rest    texttype.Read
	dialect csvtext.Dialect
}

func (c *csv) compile() (parseFunc, error) {
	c.dialect = csvtext.Dialect{Delimiter: separator(c.Delimiter), Quote: separator(c.Quote), Lazy: c.Lazy,
		Trim: c.Trim}
	if setting, problem := c.dialect.Problem(); problem != "" {
		return nil, sdk.SettingError{Setting: setting, Message: problem}
	}
	for i, name := range c.Columns {
		if name != "" && slices.Contains(c.Columns[:i], name) {
			return nil, sdk.SettingError{Setting: "columns", Message: texttype.Quoted(name) + " is there twice"}
		}
	}
	all, err := c.compileTypes(c.Columns)
	if err != nil {
		return nil, err
	}
	c.rest, c.reads = all.Reader("*"), make([]texttype.Read, len(c.Columns))
	for i, name := range c.Columns {
		c.reads[i] = all.Reader(name)
	}
	return func(_ context.Context, v any, m *memory) (any, error) {
		text, err := textOf(v)
		if err != nil {
			return nil, err
		}
		return c.parse(trimNewline(text), m)
	}, nil
}

func (c *csv) parse(text string, m *memory) (any, error) {
	if err := m.take(memberBytes * len(c.Columns)); err != nil {
		return nil, err
	}
	made := make(map[string]any, len(c.Columns))
	l := c.dialect.Columns(text)
	n := 0
	for ; !l.Ended(); n++ {
		column, err := l.Next()
		if err != nil {
			return nil, fmt.Errorf("column %d: %w", n+1, err)
		}
		name, f := "", c.rest
		switch {
		case n < len(c.Columns):
			name, f = c.Columns[n], c.reads[n]
		case c.Extra == "refuse":
			return nil, fmt.Errorf("it has more than %d columns", len(c.Columns))
		case c.Extra == "keep":
			if err := m.take(memberBytes); err != nil {
				return nil, err
			}
			name = strconv.Itoa(n + 1)
			if _, taken := made[name]; taken {
				return nil, fmt.Errorf("column %d: its number is the name of another column", n+1)
			}
		}
		if name == "" {
			continue
		}
		if made[name], err = f.Value(name, column); err != nil {
			return nil, err
		}
	}
	if n >= len(c.Columns) {
		return made, nil
	}
	switch c.Missing {
	case "refuse":
		return nil, fmt.Errorf("it has %d of %d columns", n, len(c.Columns))
	case "null":
		for _, name := range c.Columns[n:] {
			if name != "" {
				made[name] = nil
			}
		}
	}
	return made, nil
}
