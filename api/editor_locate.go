package api

import (
	"slices"
	"strings"
)

// location is a place in a file of YAML in block style, found by its indentation.
type location struct {
	path     []string          // names of the mappings around it, outermost first; items of a list are not in it
	siblings map[string]string // the other fields of that map, with the values that are on the same line
	owner    map[string]string // the fields of the mapping around that map
	key      string            // the field whose value is being typed
	value    bool              // the place is in the value of key, not in a key
	typed    string            // part of the word before the cursor
	indent   int               // indentation of the keys in that map
}

// in reports whether the innermost list around the place is called name.
func (at *location) in(name string) bool {
	for _, part := range slices.Backward(at.path) {
		if part == "connectors" || part == "processors" || part == "dead-letter-queue" {
			return part == name
		}
	}
	return false
}

// entry is a line that has a field.
type entry struct {
	dash       int // column of the dash that makes it the first of an item; -1 for none
	indent     int // column of the key
	key, value string
}

// readLocation returns the field of a line; ok is false when it has none.
func readLocation(line string) (e entry, ok bool) {
	e.dash = -1
	rest := strings.TrimLeft(line, " ")
	e.indent = len(line) - len(rest)
	for strings.HasPrefix(rest, "- ") || rest == "-" {
		e.dash = e.indent
		inner := strings.TrimLeft(rest[1:], " ")
		e.indent += len(rest) - len(inner)
		rest = inner
	}
	if rest == "" || rest[0] == '#' {
		return e, e.dash >= 0
	}
	key, value, found := strings.Cut(rest, ":")
	if !found || value != "" && value[0] != ' ' {
		return e, false
	}
	e.key, e.value = unquote(key), unquote(value)
	return e, true
}

func unquote(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > 1 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// locate returns the location of line and column, nil when no field can be there.
func locate(text string, line, column int) *location {
	lines := strings.Split(text, "\n")
	if line < 1 || line > len(lines) {
		return nil
	}
	runes := []rune(lines[line-1])
	before := string(runes[:min(max(column-1, 0), len(runes))])
	if strings.Contains(before, " #") || strings.HasPrefix(strings.TrimSpace(before), "#") {
		return nil
	}
	at := &location{siblings: map[string]string{}}
	here, field := readLocation(before)
	indent := here.indent
	if field && here.key != "" {
		at.value, at.key, at.typed = true, here.key, strings.TrimLeft(here.value, `"'`)
	} else {
		at.typed = strings.TrimLeft(strings.TrimLeft(strings.TrimSpace(before), "-"), " ")
		if strings.TrimSpace(before) == "" {
			indent = len(before)
		}
	}
	at.indent = indent
	at.climb(lines, line-1, indent, here.dash)
	return at
}

// climb collects the fields around line n, whose key begins at column indent, behind a dash unless dash is -1.
func (at *location) climb(lines []string, n, indent, dash int) {
	at.siblings = siblingsOf(lines, n, indent, dash)
	for i, inner := n, true; indent > 0 || dash >= 0; inner = false {
		i, dash = first(lines, i, indent, dash)
		limit := indent
		if dash >= 0 {
			limit = dash + 1 // a list may stand at the column of its name
		}
		parent, found := entry{}, false
		for i--; i >= 0; i-- {
			e, ok := readLocation(lines[i])
			if ok && e.key != "" && e.indent < limit {
				parent, found = e, true
				break
			}
		}
		if !found {
			return
		}
		at.path = append([]string{parent.key}, at.path...)
		if inner {
			at.owner = siblingsOf(lines, i, parent.indent, parent.dash)
		}
		indent, dash = parent.indent, parent.dash
	}
}

// first returns the line with the first field of the mapping of line n, and the dash before it.
func first(lines []string, n, indent, dash int) (int, int) {
	for i := n; dash < 0 && i > 0; {
		i--
		e, ok := readLocation(lines[i])
		switch {
		case strings.TrimSpace(lines[i]) == "" || !ok && lineIndent(lines[i]) >= indent:
			continue
		case !ok || e.indent < indent:
			return n, -1
		case e.indent == indent:
			n, dash = i, e.dash
		}
	}
	return n, dash
}

// siblingsOf returns the fields of the mapping of line n, except the value of line n itself.
func siblingsOf(lines []string, n, indent, dash int) map[string]string {
	all := map[string]string{}
	start, _ := first(lines, n, indent, dash)
	for i := start; i < len(lines); i++ {
		e, ok := readLocation(lines[i])
		blank := strings.TrimSpace(lines[i]) == ""
		switch {
		case blank:
			continue
		case i > start && (lineIndent(lines[i]) < indent && i != n || ok && e.dash >= 0 && e.dash < indent):
			return all
		case ok && e.indent == indent && e.key != "" && i != n:
			all[e.key] = e.value
		case ok && i == n && i == start && e.key != "" && e.value != "":
			all[e.key] = e.value
		}
	}
	return all
}

func lineIndent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
