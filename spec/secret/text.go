package secret

import (
	"regexp"
	"strings"
)

// Redacted stands for a secret.
const Redacted = "***"

// pair finds a name and its value in YAML or JSON, in block and in flow style.
var pair = regexp.MustCompile(`("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[\w./$-]+)(\s*:[ \t]+)("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|(?:\$\{[^}\n]*\}|[^\s#,{}\[\]"'&*!|>%@])(?:\$\{[^}\n]*\}|[^\n#,{}\[\]])*|[|>][+\-\d]*)`)

// blockEnd is the rest of a line behind what ends a plain value in flow style, and does
// not in block style.
var blockEnd = regexp.MustCompile(`^[,\]}][^\n]*`)

// Text returns text, which is YAML or JSON that need not be valid, without the values that
// are secrets. Lines stay where they are. In doubt a value is a secret.
func Text(text string) string {
	var out strings.Builder
	at := 0
	for {
		m := pair.FindStringSubmatchIndex(text[at:])
		if m == nil {
			out.WriteString(text[at:])
			return out.String()
		}
		before, from, to := text[:at+m[2]], at+m[6], at+m[7]
		name, value := unquote(text[at+m[2]:at+m[3]]), text[from:to]
		block, more := value[0] == '|' || value[0] == '>', ""
		if !block && !inFlow(before) {
			more = blockEnd.FindString(text[to:])
		}
		out.WriteString(text[at:from])
		at = to
		switch {
		case block && Is(name, "x"):
			out.WriteString(value)
			at = len(text) - len(hideBlock(&out, before, text[to:]))
		case !block && Is(name, unquote(strings.TrimSpace(value)+more)):
			out.WriteString(Redacted + strings.Repeat("\n", strings.Count(value, "\n")))
			at += len(more)
		default:
			out.WriteString(value)
		}
	}
}

// inFlow reports whether the end of before lies in braces that are opened on its line.
func inFlow(before string) bool {
	line := before[strings.LastIndexByte(before, '\n')+1:]
	return strings.Count(line, "{") > strings.Count(line, "}") || strings.Count(line, "[") > strings.Count(line, "]")
}

// hideBlock writes the lines of a block scalar as *** and returns what is behind it.
func hideBlock(out *strings.Builder, before, rest string) string {
	line := before[strings.LastIndexByte(before, '\n')+1:]
	indent := len(line) - len(strings.TrimLeft(line, " -"))
	first, rest, more := strings.Cut(rest, "\n")
	out.WriteString(first)
	for more {
		next, after, another := strings.Cut(rest, "\n")
		depth := len(next) - len(strings.TrimLeft(next, " "))
		if strings.TrimSpace(next) != "" && depth <= indent {
			break
		}
		out.WriteString("\n")
		if strings.TrimSpace(next) != "" {
			out.WriteString(next[:depth] + Redacted)
		}
		rest, more = after, another
	}
	if more {
		out.WriteString("\n")
	}
	return rest
}

func unquote(s string) string {
	if len(s) > 1 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}
