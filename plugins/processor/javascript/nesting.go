package javascript

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// The parser and the compiler are recursive, and a Go stack that outgrows its limit ends the process. So the constructs
// that make them recurse are counted beforehand.
const (
	// maxUncounted is the maximum size of a script that is parsed without counting: each byte takes at most 4 kB of the
	// 1 GB stack.
	maxUncounted = 16 << 10
	// maxBrackets bounds the nesting of brackets and template literals.
	maxBrackets = 1000
	// maxChain bounds the tokens that may depend on each other: in each open bracket, all tokens since the last
	// semicolon or comma. Operators nest without brackets.
	maxChain = 20_000
)

// checkNesting returns an error if a script cannot be parsed within bounds. It knows just enough of the language to
// recognize literals and comments. A script is refused if that would depend on the grammar, because code could be
// mistaken for a literal.
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

// before is the kind of token before a slash. It decides whether the slash divides or begins a regular expression.
type before int

const (
	operator  before = iota // a slash begins a regular expression
	operand                 // a slash divides
	ambiguous               // it depends on the grammar
	dot                     // a property name follows, which is not a keyword
)

// bracket is an open bracket.
type bracket struct {
	close byte   // what closes it; '`': the } of a template literal
	after before // kind of the closing bracket, for a slash after it
	chain int    // tokens since the last semicolon or comma
}

// counter walks the tokens of a script.
type counter struct {
	text    string
	at      int
	open    []bracket // the first one stands for the whole script
	chain   int       // sum of the chains of open brackets
	last    before
	word    string // the last token, if it is a word
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

// count counts a token and records its kind, which decides the meaning of a slash after it.
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

// literal skips the string or regular expression that begins at the current position.
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

// escape skips the escape sequence at *i, or returns false.
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

// template skips the text of a template literal, up to its end or the next substitution.
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

// push opens a bracket after the word, which may be empty.
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

// isWord reports whether the byte may occur in names and numbers.
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
	case !plain: // it may be a space, or a keyword with an escape
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
