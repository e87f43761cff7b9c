package javascript

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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

// compile parses and compiles a script with that time limit. Errors begin with name:line:column.
func compile(name, text string, timeout time.Duration) (program *goja.Program, err error) {
	limitMatches(timeout, func() { program, err = compileUnlimited(name, text) })
	return program, err
}

func compileUnlimited(name, text string) (*goja.Program, error) {
	if err := checkNesting(name, text); err != nil {
		return nil, err
	}
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
	var program *goja.Program
	if err = checkTree(tree); err == nil {
		program, err = goja.CompileAST(tree, false)
	}
	if syntax := (*goja.CompilerSyntaxError)(nil); errors.As(err, &syntax) && syntax.File != nil {
		p := syntax.File.Position(syntax.Offset)
		return nil, fmt.Errorf("%s:%d:%d: %s", name, p.Line, p.Column, syntaxMessage(syntax.Message))
	}
	return program, err
}

func syntaxMessage(s string) string { return "SyntaxError: " + strings.TrimPrefix(s, "SyntaxError: ") }

// describe adds to an error of a script the place where it was thrown.
func describe(err error) error {
	var interrupted *goja.InterruptedError
	if errors.As(err, &interrupted) {
		reason, _ := interrupted.Value().(error)
		return fmt.Errorf("%s%w", place(interrupted.Stack()), reason)
	}
	var overflow *goja.StackOverflowError
	if errors.As(err, &overflow) {
		return fmt.Errorf("%sRangeError: calls are nested deeper than %d", place(overflow.Stack()), maxCallDepth)
	}
	var thrown *goja.Exception
	if errors.As(err, &thrown) {
		return fmt.Errorf("%s%s", place(thrown.Stack()), limitText(thrownText(thrown)))
	}
	return err
}

// thrownText returns the text of a thrown value. Code of the script may compute the text, or fail.
func thrownText(e *goja.Exception) (text string) {
	defer func() {
		if recover() != nil {
			text = "what was thrown has no text"
		}
	}()
	if v := e.Value(); v != nil {
		return v.String()
	}
	return "undefined"
}

// place returns the innermost position inside the script as "name:line:column: ".
func place(stack []goja.StackFrame) string {
	for i := range stack {
		if p := stack[i].Position(); p.Line > 0 && p.Filename != emptyName {
			return fmt.Sprintf("%s:%d:%d: ", p.Filename, p.Line, p.Column)
		}
	}
	return ""
}
