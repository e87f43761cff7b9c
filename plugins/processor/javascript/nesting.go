//go:build !minimal

package javascript

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// The parser and the compiler are recursive, and a Go stack that outgrows its limit ends the
// process. What makes them recurse is counted beforehand.
const (
	// maxUncounted is the size up to which a script is parsed without being counted: each of
	// its bytes takes 4 kB of stack at most, of 1 GB.
	maxUncounted = 16 << 10
	// maxBrackets bounds brackets and template literals within each other.
	maxBrackets = 1000
	// maxChain bounds the tokens that may depend on each other: all since the last semicolon or
	// comma, in each of the brackets that are open. Operators nest without brackets.
	maxChain = 20_000
)

// checkNesting returns why a script cannot be parsed within bounds. It knows just enough of the
// language to find what stands in literals and comments. Where that depends on the grammar, the
// script is refused, as what is taken for a literal may be code.
func checkNesting(name, text string) error {
	if len(text) <= maxUncounted {
		return nil
	}
	c := counter{text: text, open: []bracket{{}}}
	if !utf8.ValidString(text) || strings.ContainsAny(text, "\u2028\u2029") {
		return fmt.Errorf("%s: SyntaxError: the script is not UTF-8, or has separators of lines other than line feeds", name)
	}
	for c.at < len(text) && c.problem == "" {
		c.token()
	}
	if c.problem == "" {
		return nil
	}
	before := text[:min(c.at, len(text))]
	line := strings.Count(before, "\n") + 1
	return fmt.Errorf("%s:%d:%d: SyntaxError: %s", name, line, len(before)-strings.LastIndexByte(before, '\n'), c.problem)
}

// What stands before a slash decides whether that divides or begins a regular expression.
type before int

const (
	operator  before = iota // a regular expression follows
	operand                 // a division follows
	ambiguous               // that depends on the grammar
	dot                     // the name of a property follows, which is no keyword
)

// bracket is one that is open.
type bracket struct {
	close byte   // what closes it; '`': the } of a template literal
	after before // what its end is, for a slash
	chain int    // tokens since the last semicolon or comma
}

// counter goes through the tokens of a script.
type counter struct {
	text    string
	at      int
	open    []bracket // the first one is the script
	chain   int       // sum of chains
	last    before
	word    string // the last token, when it is a word
	problem string // why the script is refused
}

func (c *counter) token() {
	char, rest := c.text[c.at], c.text[c.at:]
	word := c.word
	c.word = ""
	switch {
	case strings.IndexByte(" \t\r\n\v\f", char) >= 0:
		c.at, c.word = c.at+1, word
	case strings.HasPrefix(rest, "//"), strings.HasPrefix(rest, "/*"):
		c.comment(rest)
		c.word = word
	case char == '"' || char == '\'':
		c.literal(char)
		c.count(operand)
	case char == '`':
		c.at++
		c.count(operand)
		c.template()
	case char == '/':
		c.slash()
	case strings.IndexByte("([{", char) >= 0:
		c.push(char, word)
	case strings.IndexByte(")]}", char) >= 0:
		c.pop(char)
	case char == ';' || char == ',':
		c.at++
		top := &c.open[len(c.open)-1]
		c.chain, top.chain = c.chain-top.chain, 0
		c.last = operator
	case isWord(char):
		c.words(rest)
	default:
		c.punctuation(rest)
	}
}

// count counts a token that is what a slash may follow.
func (c *counter) count(is before) {
	c.last = is
	c.open[len(c.open)-1].chain++
	if c.chain++; c.chain > maxChain {
		c.problem = fmt.Sprintf("more than %d operators and names depend on each other; end statements by semicolons", maxChain)
	}
}

func (c *counter) comment(rest string) {
	end, width := strings.IndexAny(rest, "\r\n"), 0
	if rest[1] == '*' {
		end, width = strings.Index(rest[2:], "*/")+2, 2
		if end < 2 {
			c.problem = "the comment does not end"
			return
		}
	}
	if end < 0 {
		end = len(rest)
	}
	c.at += end + width
}

// literal skips a string, or a regular expression, that begins here.
func (c *counter) literal(quote byte) {
	class := false
	for i := c.at + 1; i < len(c.text); i++ {
		switch char := c.text[i]; {
		case char == '\\' && c.escape(&i, quote == '/'):
		case char == '\\' || char == '\n' || char == '\r':
			c.problem = "a text or regular expression does not end on its line, or has an escape that is not one"
			return
		case char == quote && !class:
			if quote == '/' && nestedGroups(c.text[c.at:i]) > maxNesting {
				c.problem = "a regular expression is nested too deep"
				return
			}
			c.at = i + 1
			return
		case quote == '/' && char == '[':
			class = true
		case char == ']':
			class = false
		}
	}
	c.problem = "a text or regular expression does not end"
}

// escape skips what is escaped at *i, or returns false.
func (c *counter) escape(i *int, oneLine bool) bool {
	*i++
	rest := c.text[min(*i, len(c.text)):]
	switch {
	case rest == "" || oneLine && (rest[0] == '\n' || rest[0] == '\r'):
		return false
	case strings.HasPrefix(rest, "\r\n"):
		*i++
	case rest[0] == 'x':
		return len(rest) > 2 && isHex(rest[1:3])
	case strings.HasPrefix(rest, "u{"):
		end := strings.IndexByte(rest, '}')
		return end > 2 && end <= 8 && isHex(rest[2:end])
	case rest[0] == 'u':
		return len(rest) > 4 && isHex(rest[1:5])
	}
	return true
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdefABCDEF") == "" }

// template skips the text of a template literal, to its end or to the code in it.
func (c *counter) template() {
	for i := c.at; i < len(c.text); i++ {
		switch char := c.text[i]; {
		case char == '\\' && !c.escape(&i, false):
			c.problem = "a template literal has an escape that is not one"
			return
		case char == '`':
			c.at, c.last = i+1, operand
			return
		case char == '$' && strings.HasPrefix(c.text[i+1:], "{"):
			c.at = i + 1
			c.push('{', "`")
			return
		}
	}
	c.problem = "a template literal does not end"
}

func (c *counter) slash() {
	switch c.last {
	case operand:
		c.at++
		c.count(operator)
	case operator:
		c.literal('/')
		c.count(operand)
	default:
		c.problem = "in a script of this size, it is not clear whether this slash divides or begins a regular expression: put what it belongs to into parentheses"
	}
}

// push opens a bracket behind a word, if there is one.
func (c *counter) push(char byte, word string) {
	b := bracket{close: "   )]}"[strings.IndexByte("([{", char)+3], after: operand}
	switch {
	case word == "`":
		b.close = '`'
	case char == '{' || word == "await":
		b.after = ambiguous
	case char == '(' && (word == "if" || word == "while" || word == "for" || word == "with"):
		b.after = operator
	}
	c.count(operator)
	c.open = append(c.open, b)
	c.at++
	if len(c.open) > maxBrackets && c.problem == "" {
		c.problem = fmt.Sprintf("brackets are nested deeper than %d", maxBrackets)
	}
}

func (c *counter) pop(char byte) {
	top := c.open[len(c.open)-1]
	template := top.close == '`' && char == '}'
	if top.close != char && !template {
		c.problem = fmt.Sprintf("unexpected %c", char)
		return
	}
	c.at++
	c.open, c.chain = c.open[:len(c.open)-1], c.chain-top.chain
	c.count(top.after)
	if template {
		c.template()
	}
}

// isWord reports whether names and numbers may have the byte.
func isWord(char byte) bool {
	return char|0x20 >= 'a' && char|0x20 <= 'z' || char >= '0' && char <= '9' || char >= utf8.RuneSelf || strings.IndexByte("_$#\\", char) >= 0
}

// words skips a name, a number or a keyword.
func (c *counter) words(rest string) {
	n, plain := 0, true
	for ; n < len(rest) && isWord(rest[n]); n++ {
		plain = plain && rest[n] < utf8.RuneSelf && rest[n] != '\\'
	}
	property := c.last == dot
	c.at += n
	switch word := rest[:n]; {
	case !plain: // it may be a space, or a keyword that is written as an escape
		c.count(ambiguous)
	case property:
		c.count(operand)
	default:
		c.word = word
		c.count(beforeSlash(word))
	}
}

func beforeSlash(word string) before {
	switch word {
	case "return", "typeof", "case", "do", "else", "in", "instanceof", "new", "void", "delete", "throw":
		return operator
	case "yield", "await", "of", "default", "extends":
		return ambiguous
	}
	return operand
}

func (c *counter) punctuation(rest string) {
	switch {
	case strings.HasPrefix(rest, "++"), strings.HasPrefix(rest, "--"):
		c.at += 2
		c.count(ambiguous)
	case strings.HasPrefix(rest, "..."):
		c.at += 3
		c.count(operator)
	case rest[0] == '.':
		c.at++
		c.count(dot)
	default:
		c.at++
		c.count(operator)
	}
}
