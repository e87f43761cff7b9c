// Package cli is the command line. Each command is in a file with its name; a command in a group, such as 'conduit
// pipelines plan', has the name of the group as a prefix. The other files are for all commands: the program and its
// settings, flags, exit codes, help, and the connection to the running agent.
package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec"
)

// Program has the dependencies of the commands on their environment.
type Program struct {
	Stdout, Stderr io.Writer
	Environ        []string
	Version        string                     // of this executable
	Terminal       bool                       // Stdout is a terminal
	Journal        bool                       // Stdout leads to systemd's journal
	JournalSocket  string                     // socket for entries with fields; "": none
	ServiceFile    string                     // settings of an agent that is installed as a service; "": none
	Ask            func(question string) bool // asks the person at the terminal; nil: there is none
	Catalog        func(config.Config, *slog.Logger) Catalog
	Agent          func(context.Context, agent.Options) error
	Parts          Parts
	Docs           func(name string) ([]byte, bool) // a file of the documentation, by its name; set from Parts.Site
}

// Color reports whether output may be colored.
func (p *Program) Color() bool {
	return p.Terminal && p.Getenv("NO_COLOR") == "" && p.Getenv("TERM") != "dumb"
}

// Paint colors text for Stdout and Stderr when they are terminals.
func (p *Program) Paint(text, color string) string {
	if color == "" || !p.Color() {
		return text
	}
	return terminal.Paint(text, color)
}

// guard makes p escape the characters that a terminal would not show as they are in the output for people.
func (p *Program) guard() (flush func()) {
	out, errs := terminal.NewGuard(p.Stdout), terminal.NewGuard(p.Stderr)
	p.Stdout, p.Stderr = out, errs
	return func() { _, _ = out.Flush(), errs.Flush() }
}

// Document returns the writer for a document, such as a file in YAML. It escapes the document only for a terminal.
func (p *Program) Document() io.Writer {
	if p.Terminal {
		return p.Stdout
	}
	return unguarded(p.Stdout)
}

func unguarded(w io.Writer) io.Writer {
	if g, ok := w.(*terminal.Guard); ok {
		return g.Unguarded()
	}
	return w
}

// Streams returns the writers for another program that runs in place of this one.
func (p *Program) Streams() (stdout, stderr io.Writer) {
	return unguarded(p.Stdout), unguarded(p.Stderr)
}

// Getenv returns the value of a variable of Environ; the last one counts.
func (p *Program) Getenv(name string) string {
	value := ""
	for _, v := range p.Environ {
		if rest, ok := strings.CutPrefix(v, name+"="); ok {
			value = rest
		}
	}
	return value
}

// WriteJSON prints v.
func (p *Program) WriteJSON(v any) error { return WriteJSON(p.Document(), v) }

// WriteLine prints v as JSON on one line.
func (p *Program) WriteLine(v any) error { return writeJSON(p.Document(), v, "") }

// WriteJSON writes v for people and programs: indented, and without HTML escapes.
func WriteJSON(w io.Writer, v any) error { return writeJSON(w, v, "  ") }

func writeJSON(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", indent)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	if err == nil {
		_, err = w.Write(terminal.EscapeJSON(b.Bytes()))
	}
	return err
}

// PrintProblems prints a line for each problem.
func (p *Program) PrintProblems(problems []spec.Problem) { p.ProblemsTo(p.Stdout, problems) }

// ProblemsTo writes a line for each problem.
func (p *Program) ProblemsTo(w io.Writer, problems []spec.Problem) {
	for _, problem := range problems {
		fmt.Fprintf(w, "%s:%d:%d: %s: %s\n", terminal.Line(problem.File), max(problem.Line, 1), max(problem.Column, 1),
			p.Severity(problem.Severity), terminal.Clean(problem.Message))
	}
}

// Severity returns the word for s, in its color.
func (p *Program) Severity(s spec.Severity) string {
	color := terminal.Yellow
	if s == spec.SeverityError {
		color = terminal.Red
	}
	return p.Paint(string(s), color)
}

// HasErrors reports whether one of the problems is an error.
func HasErrors(problems []spec.Problem) bool {
	return slices.ContainsFunc(problems, func(problem spec.Problem) bool {
		return problem.Severity == spec.SeverityError
	})
}

// WriteNew writes a file. It returns fs.ErrExist when the file exists, unless force is set.
func WriteNew(path string, content []byte, force bool) error {
	mode := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		mode = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(path, mode, 0o644)
	if err != nil {
		return fmt.Errorf("cannot write file: %w", err)
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("cannot write file: %w", err)
	}
	return nil
}

// UntilSignal returns a context that ends at the first signal to end. After the second signal the process exits as a
// shell expects after a signal.
func UntilSignal(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	signals, done := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		for {
			select {
			case s := <-signals:
				if ctx.Err() != nil {
					os.Exit(128 + int(s.(syscall.Signal)))
				}
				cancel()
			case <-done:
				return
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); close(done); cancel() }
}
