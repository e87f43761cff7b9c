package spec

import (
	"strings"

	"github.com/conduit-agent/conduit/spec/texts"
)

// nameAndValue matches a name and its value in YAML or JSON, in block and in flow style.
var nameAndValue = texts.Regexp(`("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[\w./$-]+)(\s*:[ \t]+)` +
	`("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|` +
	`(?:\$\{[^}\n]*\}|[^\s#,{}\[\]"'&*!|>%@])(?:\$\{[^}\n]*\}|[^\n#,{}\[\]])*|[|>][+\-\d]*)`)

// RedactText redacts the secret values in text, which is YAML or JSON that need not be valid. Line breaks stay in
// place. In doubt a value is a secret.
func RedactText(text string) string {
	var out strings.Builder
	at, line := 0, textPosition{text: text}
	for {
		m := nameAndValue().FindStringSubmatchIndex(text[at:])
		if m == nil {
			out.WriteString(text[at:])
			return out.String()
		}
		before, from, to := text[:at+m[2]], at+m[6], at+m[7]
		name, value := unquote(text[at+m[2]:at+m[3]]), text[from:to]
		block, more := value[0] == '|' || value[0] == '>', ""
		first := line.advance(at + m[2])
		if !block && !line.inFlow() {
			more = line.behind(to)
		}
		whole := value // the rest of the line was judged with the first value
		if first {
			whole = strings.TrimSpace(value) + more
		}
		out.WriteString(text[at:from])
		at = to
		switch {
		case block && IsSecret(name, "x"):
			out.WriteString(value)
			at = len(text) - len(hideBlock(&out, before, text[to:]))
		case !block && IsSecret(name, unquote(strings.TrimSpace(whole))):
			out.WriteString(Redacted + strings.Repeat("\n", strings.Count(value, "\n")))
			at += len(more)
		default:
			out.WriteString(value)
		}
	}
}

// textPosition is a position in a text. It only advances, so that each byte is read once.
type textPosition struct {
	text          string
	at, end       int // end is the end of a line, when it is after at
	curly, square int // open brackets on the line
	pairs         int // on the line
}

// advance moves to a pair, and reports whether the pair is the first on its line.
func (p *textPosition) advance(to int) (first bool) {
	passed := p.text[p.at:to]
	if i := strings.LastIndexByte(passed, '\n'); i >= 0 {
		passed, p.curly, p.square, p.pairs = passed[i+1:], 0, 0, 0
	}
	p.curly += strings.Count(passed, "{") - strings.Count(passed, "}")
	p.square += strings.Count(passed, "[") - strings.Count(passed, "]")
	p.at = to
	p.pairs++
	return p.pairs == 1
}

// inFlow reports whether the position is within brackets that were opened on its line.
func (p *textPosition) inFlow() bool { return p.curly > 0 || p.square > 0 }

// behind returns the rest of the line, if it begins with a character that ends a plain value in flow style but not in
// block style. Otherwise it returns "".
func (p *textPosition) behind(from int) string {
	if from == len(p.text) || strings.IndexByte(",]}", p.text[from]) < 0 {
		return ""
	}
	if from > p.end || p.end == 0 {
		p.end = len(p.text)
		if i := strings.IndexByte(p.text[from:], '\n'); i >= 0 {
			p.end = from + i
		}
	}
	return p.text[from:p.end]
}

// hideBlock writes the lines of a block scalar as *** and returns the text after it.
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
