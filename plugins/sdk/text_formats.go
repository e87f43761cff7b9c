package sdk

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/record"
)

var errNoObject = errors.New("the payload is no object")

// newCSV returns the format of lines of CSV, and their header. options are the names of the columns, and perhaps
// delimiter=CHARACTER and header=false.
func newCSV(options string) (format Format, header []byte, err error) {
	var columns []string
	delimiter, hasHeader := byte(','), true
	for _, option := range splitList(options) {
		name, value, isOption := strings.Cut(option, "=")
		switch {
		case option == "":
		case !isOption:
			columns = append(columns, option)
		case name == "delimiter" && value == "tab":
			delimiter = '\t'
		case name == "delimiter" && len(value) == 1 && value[0] < utf8.RuneSelf && !strings.Contains("\"\r\n ", value):
			delimiter = value[0]
		case name == "header" && (value == "true" || value == "false"):
			hasHeader = value == "true"
		default:
			return nil, nil, fmt.Errorf("cannot parse option %q: want the name of a column, delimiter=; or header=false",
				option)
		}
	}
	if len(columns) == 0 {
		return nil, nil, errors.New("the format csv needs names of columns, such as id, name")
	}
	for i, name := range columns {
		if slices.Contains(columns[:i], name) {
			return nil, nil, fmt.Errorf("column %q comes twice", name)
		}
	}
	if hasHeader {
		for i, name := range columns {
			header = appendColumn(header, delimiter, i, name)
		}
	}
	return func(dst []byte, r *record.Record) ([]byte, error) {
		object, ok := r.After.Structured()
		if !ok {
			return dst, errNoObject
		}
		line := dst
		for i, name := range columns {
			text, err := textOf(memberOf(object, name))
			if err != nil {
				return dst, fmt.Errorf("column %q: %w", name, err)
			}
			line = appendColumn(line, delimiter, i, text)
		}
		if len(columns) == 1 && len(line) == len(dst) { // readers skip empty lines
			line = append(line, `""`...)
		}
		return line, nil
	}, header, nil
}

// appendColumn appends column i of a line of CSV, in quotes if readers need them.
func appendColumn(line []byte, delimiter byte, i int, text string) []byte {
	if i > 0 {
		line = append(line, delimiter)
	}
	if strings.IndexByte(text, delimiter) < 0 && !strings.ContainsAny(text, "\"\r\n") && strings.TrimSpace(text) == text {
		return append(line, text...)
	}
	line = append(line, '"')
	line = append(line, strings.ReplaceAll(text, `"`, `""`)...)
	return append(line, '"')
}

// memberOf returns the member with a name, or else the one at the path that the name is, such as address.city.
func memberOf(object map[string]any, name string) any {
	if v, ok := object[name]; ok {
		return v
	}
	first, rest, isPath := strings.Cut(name, ".")
	if inner, ok := object[first].(map[string]any); ok && isPath {
		return memberOf(inner, rest)
	}
	return nil
}

// textOf returns the text of a value: objects and lists as JSON, null as nothing.
func textOf(v any) (string, error) {
	if v == nil {
		return "", nil
	}
	return record.Text(v)
}

// newLogfmt returns the format of pairs of keys and values. options are the names of the members, in their order; all
// in the order of their names if there are none.
func newLogfmt(options string) (Format, error) {
	var names []string
	for _, name := range splitList(options) {
		if name == "" {
			continue
		}
		if !isKey(name) {
			return nil, keyError(name)
		}
		names = append(names, name)
	}
	return func(dst []byte, r *record.Record) ([]byte, error) {
		object, ok := r.After.Structured()
		if !ok {
			return dst, errNoObject
		}
		all := names
		if len(names) == 0 {
			all = slices.Sorted(maps.Keys(object))
		}
		line := dst
		for _, name := range all {
			if !isKey(name) {
				return dst, keyError(name)
			}
			v := memberOf(object, name)
			if v == nil {
				continue
			}
			text, err := textOf(v)
			if err != nil {
				return dst, fmt.Errorf("%q: %w", name, err)
			}
			if len(line) > len(dst) {
				line = append(line, ' ')
			}
			line = append(append(line, name...), '=')
			if line, err = appendLogfmt(line, text); err != nil {
				return dst, fmt.Errorf("%q: %w", name, err)
			}
		}
		return line, nil
	}, nil
}

// isKey reports whether name is a key of logfmt.
func isKey(name string) bool {
	return name != "" && utf8.ValidString(name) &&
		strings.IndexFunc(name, func(c rune) bool { return c <= ' ' || c == '=' || c == '"' || c == 0x7f }) < 0
}

func keyError(name string) error {
	return fmt.Errorf("%q is no key of logfmt, which has no spaces, quotes and equals signs: rename it", name)
}

// appendLogfmt appends a value, in quotes and with the escapes of JSON if readers need them.
func appendLogfmt(line []byte, text string) ([]byte, error) {
	plain := func(c rune) bool { return c > ' ' && c != '=' && c != '"' && c != '\\' && c != 0x7f }
	if text != "" && utf8.ValidString(text) && strings.IndexFunc(text, func(c rune) bool { return !plain(c) }) < 0 {
		return append(line, text...), nil
	}
	if !utf8.ValidString(text) {
		return line, errors.New("it is no valid UTF-8")
	}
	quoted, err := json.Marshal(text)
	return append(line, quoted...), err
}
