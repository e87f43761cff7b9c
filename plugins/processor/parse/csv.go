package parse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/plugins/sdk"
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
	// What a text with too few columns is: refuse makes it an error, null sets the others to null, and omit leaves them
	// out.
	Missing string `json:"missing" default:"refuse" validate:"inclusion=refuse|null|omit"`
	// What a text with too many columns is: refuse makes it an error, drop leaves the others out, and keep names them
	// by their number, which begins with 1.
	Extra string `json:"extra" default:"refuse" validate:"inclusion=refuse|drop|keep"`
	typed

	reads            []read
	rest             read
	delimiter, quote string
	spaces           string // characters that Trim removes
}

func (c *csv) compile() (parseFunc, error) {
	c.delimiter, c.quote = separator(c.Delimiter), separator(c.Quote)
	switch {
	case c.delimiter == "" || strings.ContainsAny(c.delimiter, "\r\n"):
		return nil, sdk.SettingError{Setting: "delimiter", Message: "want a text without line breaks"}
	case strings.ContainsAny(c.quote, "\r\n"):
		return nil, sdk.SettingError{Setting: "quote", Message: "want a text without line breaks"}
	case c.quote != "" && (strings.HasPrefix(c.delimiter, c.quote) || strings.HasPrefix(c.quote, c.delimiter)):
		return nil, sdk.SettingError{Setting: "quote", Message: "it must not begin like the delimiter"}
	}
	for i, name := range c.Columns {
		if name != "" && slices.Contains(c.Columns[:i], name) {
			return nil, sdk.SettingError{Setting: "columns", Message: quoted(name) + " is there twice"}
		}
	}
	all, err := c.compileTypes(c.Columns)
	if err != nil {
		return nil, err
	}
	c.rest, c.reads = all.rest, make([]read, len(c.Columns))
	for i, name := range c.Columns {
		c.reads[i] = all.of(name)
	}
	if c.spaces = ""; c.Trim {
		c.spaces = strings.ReplaceAll(" \t", c.delimiter, "")
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
	l := line{csv: c, rest: text, quotes: c.quote != "" && strings.Contains(text, c.quote),
		lines: strings.IndexByte(text, '\n') >= 0}
	n := 0
	for ; !l.ended; n++ {
		column, err := l.next()
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
		if made[name], err = f.value(name, column); err != nil {
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

var errLines = errors.New("a line break stands outside quotes")

// line is a text from which columns are taken.
type line struct {
	*csv
	rest          string
	quotes, lines bool // whether the text has any
	ended         bool
}

// next returns the next column.
func (l *line) next() (string, error) {
	if l.quotes {
		if text, ok := strings.CutPrefix(strings.TrimLeft(l.rest, l.spaces), l.quote); ok {
			return l.inQuotes(text)
		}
	}
	column := l.rest
	if i := strings.Index(l.rest, l.delimiter); i >= 0 {
		column, l.rest = l.rest[:i], l.rest[i+len(l.delimiter):]
	} else {
		l.ended = true
	}
	switch {
	case l.lines && strings.IndexByte(column, '\n') >= 0:
		return "", errLines
	case l.quotes && !l.Lazy && strings.Contains(column, l.quote):
		return "", errors.New("a quote stands in a column without quotes")
	}
	return strings.Trim(column, l.spaces), nil
}

// inQuotes returns the column whose opening quote stands before text.
func (l *line) inQuotes(text string) (string, error) {
	var made []byte // what precedes text, if quotes in it were doubled
	for {
		i := strings.Index(text, l.quote)
		if i < 0 && l.Lazy {
			l.ended = true
			return string(append(made, text...)), nil
		} else if i < 0 {
			return "", errors.New("the closing quote is missing")
		}
		column, behind := text[:i], text[i+len(l.quote):]
		if rest, ok := strings.CutPrefix(behind, l.quote); ok {
			made, text = append(append(made, column...), l.quote...), rest
			continue
		}
		end := strings.TrimLeft(behind, l.spaces)
		rest, more := strings.CutPrefix(end, l.delimiter)
		switch {
		case more || end == "":
			l.rest, l.ended = rest, !more
			if made == nil {
				return column, nil
			}
			return string(append(made, column...)), nil
		case strings.HasPrefix(strings.TrimPrefix(end, "\r"), "\n"):
			return "", errLines
		case !l.Lazy:
			return "", errors.New("the closing quote is followed by a text")
		}
		made, text = append(append(made, column...), l.quote...), behind
	}
}
