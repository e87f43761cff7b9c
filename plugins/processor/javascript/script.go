package javascript

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/dop251/goja"
	"github.com/dop251/goja/parser"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// maxScript bounds the size of a script file.
const maxScript = 4 << 20

// readScript returns the text of the script and its name for errors.
func (c *config) readScript(ctx context.Context) (name, text string, err error) {
	switch {
	case c.Script != "" && c.Path != "":
		return "", "", settingError("script", "only one of script and script.path may be set")
	case c.Script != "":
		return "script", c.Script, nil
	case c.Path == "":
		return "", "", settingError("script", "one of script and script.path must be set")
	}
	b, err := sdk.ReadSettingFile(ctx, "script.path", c.Path, maxScript)
	if err != nil {
		return "", "", settingError("script.path", fmt.Sprintf("cannot read the script: %v", err))
	}
	return c.Path, string(b), nil
}

const (
	// maxStack bounds the Go stack that the parser and the compiler may need. They are recursive, and a stack of more
	// than 512 MiB ends the process.
	maxStack = 448 << 20
	// largeScript is the size of a script that may take long to compile: the time grows with the square of its nesting.
	largeScript = 16 << 10
	maxCompile  = 10 * time.Second
)

// compiling is held while a large script is compiled, so that only one has a large stack.
var compiling = make(chan struct{}, 1)

// compile parses and compiles a script. Errors begin with name:line:column. A script that takes longer than maxCompile
// is refused, and later ones wait for its end, because the compiler cannot be interrupted.
func compile(name, text string) (*goja.Program, error) {
	limitMatches()
	if stackBytes(text) > maxStack {
		return nil, fmt.Errorf("%s: SyntaxError: the script is too large for the stack: it has too many "+
			"brackets and operators", name)
	}
	if label, ok := repeatedLabel(text); ok {
		return nil, fmt.Errorf("%s: SyntaxError: there are more than %d labels or names of members %q", name,
			maxLabels, label)
	}
	if len(text) <= largeScript {
		return compileNow(name, text)
	}
	late := time.After(maxCompile)
	select {
	case compiling <- struct{}{}:
	case <-late:
		return nil, fmt.Errorf("%s: another large script is still being compiled", name)
	}
	type result struct {
		program *goja.Program
		err     error
	}
	done := make(chan result, 1)
	go func() {
		program, err := compileNow(name, text)
		<-compiling
		done <- result{program, err}
	}()
	select {
	case r := <-done:
		return r.program, r.err
	case <-late:
		return nil, fmt.Errorf("%s: the script takes longer than %v to compile: it is nested too deep", name,
			maxCompile)
	}
}

// stackBytes returns the stack that a script needs at most, if everything is nested. Each byte counts by the kind of
// constructs that it can belong to.
func stackBytes(text string) (size int) {
	for i := range len(text) {
		switch c := text[i]; {
		case strings.IndexByte("([{`", c) >= 0:
			size += 4096
		case c <= ' ' || c >= 0x80 || c == '_' || c == '$' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z':
			size += 256
		default:
			size += 2048
		}
	}
	return size
}

// maxLabels bounds labels with the same name: the parser creates an error for each nested pair.
const maxLabels = 4000

// repeatedLabel returns a word that precedes more than maxLabels colons. Words that are written with escapes, or
// followed by a comment, count as the same word.
func repeatedLabel(text string) (string, bool) {
	count := make(map[string]int)
	for {
		before, after, found := strings.Cut(text, ":")
		if !found {
			return "", false
		}
		text, before = after, strings.TrimRightFunc(before, isSpace)
		word := before[strings.LastIndexFunc(before, notInWord)+1:]
		if word == "" && !strings.HasSuffix(before, "/") && !strings.HasSuffix(before, "}") {
			continue
		}
		if strings.Contains(word, `\`) {
			word = ""
		}
		if count[word]++; count[word] > maxLabels {
			return word, true
		}
	}
}

func isSpace(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' }

func notInWord(r rune) bool {
	return r < 0x80 && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(`_$\`, r) || isSpace(r)
}

func compileNow(name, text string) (program *goja.Program, err error) {
	defer func() {
		if p := recover(); p != nil {
			program, err = nil, fmt.Errorf("%s: the JavaScript engine failed: %v", name, p)
		}
	}()
	// A comment that names a source map must not make the parser read that file.
	tree, err := parser.ParseFile(nil, name, text, 0, parser.WithDisableSourceMaps)
	if err != nil {
		var list parser.ErrorList
		if errors.As(err, &list) && len(list) > 0 {
			p := list[0].Position
			return nil, fmt.Errorf("%s:%d:%d: %s", name, p.Line, p.Column, syntaxMessage(list[0].Message))
		}
		return nil, fmt.Errorf("%s: %s", name, syntaxMessage(err.Error()))
	}
	if err = checkOperators(tree); err == nil {
		program, err = goja.CompileAST(tree, false)
	}
	if syntax := (*goja.CompilerSyntaxError)(nil); errors.As(err, &syntax) && syntax.File != nil {
		p := syntax.File.Position(syntax.Offset)
		return nil, fmt.Errorf("%s:%d:%d: %s", name, p.Line, p.Column, syntaxMessage(syntax.Message))
	}
	return program, err
}

func syntaxMessage(s string) string { return "SyntaxError: " + strings.TrimPrefix(s, "SyntaxError: ") }

// scriptError adds to an error of a script the place where it was thrown.
func scriptError(err error) error {
	var interrupted *goja.InterruptedError
	if errors.As(err, &interrupted) {
		reason, _ := interrupted.Value().(error)
		return fmt.Errorf("%s%w", position(interrupted.Stack()), reason)
	}
	var overflow *goja.StackOverflowError
	if errors.As(err, &overflow) {
		return fmt.Errorf("%sRangeError: calls are nested deeper than %d", position(overflow.Stack()), maxCallDepth)
	}
	var thrown *goja.Exception
	if errors.As(err, &thrown) {
		return fmt.Errorf("%s%s", position(thrown.Stack()), limitText(thrownText(thrown)))
	}
	return err
}

// thrownText returns the text of a thrown value. Code of the script may compute the text, or fail.
func thrownText(e *goja.Exception) (text string) {
	defer func() {
		if recover() != nil {
			text = "the thrown value has no text"
		}
	}()
	if v := e.Value(); v != nil {
		return v.String()
	}
	return "undefined"
}

// position returns the innermost position inside the script as "name:line:column: ".
func position(stack []goja.StackFrame) string {
	for i := range stack {
		if p := stack[i].Position(); p.Line > 0 && p.Filename != preludeName {
			return fmt.Sprintf("%s:%d:%d: ", p.Filename, p.Line, p.Column)
		}
	}
	return ""
}
