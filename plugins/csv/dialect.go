package csv

import (
	"errors"
	"strings"
)

// A Dialect is a form of CSV. RFC 4180 has commas and double quotes.
type Dialect struct {
	Delimiter string // text between columns
	Quote     string // text around columns with delimiters, line breaks or quotes, which are doubled in them; empty: none
	Lazy      bool   // a quote may stand in a column without quotes, and a single one in a column with quotes
	Trim      bool   // spaces and tabs around columns are left out, unless quotes are around them
}

// Problem returns the part that is wrong, delimiter or quote, and the reason; two empty texts if both are valid.
func (d *Dialect) Problem() (part, problem string) {
	switch {
	case d.Delimiter == "" || strings.ContainsAny(d.Delimiter, "\r\n"):
		return "delimiter", "want a text without line breaks"
	case strings.ContainsAny(d.Quote, "\r\n"):
		return "quote", "want a text without line breaks"
	case d.Quote != "" && (strings.HasPrefix(d.Delimiter, d.Quote) || strings.HasPrefix(d.Quote, d.Delimiter)):
		return "quote", "it must not begin like the delimiter"
	}
	return "", ""
}

// Columns returns the columns of a text, which is one record without the line break at its end.
func (d *Dialect) Columns(text string) Columns {
	c := Columns{Dialect: d, rest: text, quotes: d.Quote != "" && strings.Contains(text, d.Quote),
		lines: strings.IndexByte(text, '\n') >= 0}
	if d.Trim {
		c.spaces = strings.ReplaceAll(" \t", d.Delimiter, "")
	}
	return c
}

var errLines = errors.New("a line break stands outside quotes")

// Columns are the columns of a text that are not taken yet.
type Columns struct {
	*Dialect
	rest          string
	spaces        string // characters that Trim removes
	quotes, lines bool   // whether the text has any
	ended         bool
}

// Ended reports whether all columns are taken.
func (l *Columns) Ended() bool { return l.ended }

// Next returns the next column.
func (l *Columns) Next() (string, error) {
	if l.quotes {
		if text, ok := strings.CutPrefix(strings.TrimLeft(l.rest, l.spaces), l.Quote); ok {
			return l.inQuotes(text)
		}
	}
	column := l.rest
	if i := strings.Index(l.rest, l.Delimiter); i >= 0 {
		column, l.rest = l.rest[:i], l.rest[i+len(l.Delimiter):]
	} else {
		l.ended = true
	}
	switch {
	case l.lines && strings.IndexByte(column, '\n') >= 0:
		return "", errLines
	case l.quotes && !l.Lazy && strings.Contains(column, l.Quote):
		return "", errors.New("a quote stands in a column without quotes")
	}
	return strings.Trim(column, l.spaces), nil
}

// inQuotes returns the column whose opening quote stands before text.
func (l *Columns) inQuotes(text string) (string, error) {
	var made []byte // what precedes text, if quotes in it were doubled
	for {
		i := strings.Index(text, l.Quote)
		if i < 0 && l.Lazy {
			l.ended = true
			return string(append(made, text...)), nil
		} else if i < 0 {
			return "", errors.New("the closing quote is missing")
		}
		column, behind := text[:i], text[i+len(l.Quote):]
		if rest, ok := strings.CutPrefix(behind, l.Quote); ok {
			made, text = append(append(made, column...), l.Quote...), rest
			continue
		}
		end := strings.TrimLeft(behind, l.spaces)
		rest, more := strings.CutPrefix(end, l.Delimiter)
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
		made, text = append(append(made, column...), l.Quote...), behind
	}
}
