package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/peterbourgon/ff/v3/ffcli"

	plugincatalog "github.com/conduit-agent/conduit/agent/catalog"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/parts"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// hostileText would change the meaning of the line around it and the title of a terminal, and clear and color it as
// commands do.
const hostileText = "a\x1b[2J\x1b[H\x1b[31m" +
	"\u202eb\x1b]0;c\x07\u2066d\u200be\u2028f\x9bg\u009bh\U000e0041i\x7f\rj\xffk\u061c"

// hostileAnswer answers any request: every field has the text.
func hostileAnswer(list bool) []byte {
	object := map[string]any{}
	for _, name := range strings.Fields(
		`id ID name pipelineID pipelineId connectorID connectorId error message reason path file plugin version summary
		description author level phase status text line title type at key value position record content settings member
		agent address detail component code`) {
		object[name] = hostileText
	}
	object["state"] = map[string]any{"phase": hostileText, "error": hostileText,
		"lastAttempt": map[string]any{"error": hostileText}}
	object["labels"], object["fields"], object["metadata"] = map[string]string{hostileText: hostileText},
		map[string]string{hostileText: hostileText}, map[string]string{hostileText: hostileText}
	object["problems"] = []any{map[string]any{"message": hostileText, "file": hostileText, "severity": "error"}}
	delete(object, "at") // a time
	var answer any = object
	if list {
		answer = []any{object}
	}
	b, _ := json.Marshal(answer)
	return b
}

// hiddenIn returns the first character in the output of a command that a terminal does not show as it is.
func hiddenIn(printed string) string {
	i := strings.IndexFunc(printed, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsGraphic(r) })
	if i < 0 {
		return ""
	}
	return printed[max(0, i-40):min(len(printed), i+20)]
}

// hasEscapes reports whether sequences of hostileText are printed. Commands print the same sequences, but not next to
// these characters.
func hasEscapes(printed string) bool {
	return strings.Contains(printed, "a\x1b[2J") || strings.Contains(printed, "\x1b[31m\\u202e")
}

// eachRemote calls f for every command that queries an agent.
func eachRemote(c *ffcli.Command, path []string, f func(c *ffcli.Command, path []string)) {
	if c.FlagSet != nil && c.FlagSet.Lookup("api.address") != nil && len(c.Subcommands) == 0 {
		f(c, path)
	}
	for _, s := range c.Subcommands {
		eachRemote(s, append(path[:len(path):len(path)], s.Name), f)
	}
}

// repetition ends a command when it sends the same request again.
type repetition struct {
	mu       sync.Mutex
	requests map[string]bool // guarded by mu
	end      func()          // guarded by mu
}

func (r *repetition) begin(end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests, r.end = map[string]bool{}, end
}

func (r *repetition) requested(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.requests[what] {
		r.end()
	}
	r.requests[what] = true
}

// Whatever an agent answers, no command prints characters that control the terminal or reorder its text.
func TestCommandsPrintNothingHidden(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("pipelines", 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("pipelines", "p.yaml")
	if err := os.WriteFile(file, []byte("version: \"2.2\"\npipelines: [{id: x, name: \"\\u202e\", "+
		"nonsense\u202e: 1}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, answer := range []struct {
		status int
		body   []byte
	}{{200, hostileAnswer(false)}, {200, hostileAnswer(true)}, {200, []byte(hostileText)}, {500, hostileAnswer(false)},
		{404, []byte(hostileText)}} {
		var repeats repetition
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			repeats.requested(r.Method + " " + r.URL.Path)
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(answer.status)
			_, _ = w.Write(answer.body)
		}))
		eachRemote(root(&Program{Stdout: io.Discard, Stderr: io.Discard}), nil,
			func(c *ffcli.Command, path []string) {
				if path[0] == "run" {
					return
				}
				commands++
				for _, terminal := range []bool{false, true} {
					for _, arguments := range [][]string{{"x"}, {file, "y"}, {"x\u202e"}} {
						ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
						repeats.begin(cancel) // some commands follow the agent without end
						var stdout, stderr bytes.Buffer
						p := &Program{Stdout: &stdout, Stderr: &stderr, Terminal: terminal,
							Catalog: func(c config.Config, log *slog.Logger) Catalog {
								return plugincatalog.Offline(parts.Plugins(), c, log)
							}}
						args := append(append(path[:len(path):len(path)], "--api.address", server.URL), arguments...)
						Run(ctx, p, args)
						cancel()
						if !terminal && len(path) > 1 && path[1] == "export" {
							continue // a document for a file
						}
						if everything := stdout.String() + stderr.String(); hasEscapes(everything) {
							t.Errorf("%v, answered %d %.20q: prints sequences of the answer: %q", args, answer.status,
								answer.body,
								everything)
						}
						if hidden := hiddenIn(stdout.String() + stderr.String()); hidden != "" && !terminal {
							t.Errorf("%v, answered %d %.20q: prints %q", args, answer.status, answer.body, hidden)
						} else if terminal &&
							strings.ContainsAny(stdout.String()+stderr.String(), "\u202e\u2066\u200b\x07\u009b") {
							t.Errorf("%v on a terminal, answered %d %.20q: prints %q", args, answer.status, answer.body,
								hidden)
						}
					}
				}
			})
		server.Close()
	}
	if commands < 50 {
		t.Errorf("only %d commands were tried", commands)
	}
}

// A file name takes one line, and does not steer the terminal.
func TestNamesOfFilesTakeOneLine(t *testing.T) {
	t.Chdir(t.TempDir())
	const name = "a\nb\x1b[31mc\x1b[2J"
	if err := os.WriteFile("db"+name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "--path", name}, {"init", "--path", name}, {"init", "--path", name, "--force"},
		{"pipelines", "init", "--path", name}, {"pipelines", "init", "--path", name},
		{"pipelines", "init", "--path", name, "--source", "file"}, {"store", "check", "--db.sqlite.path", "db" + name},
	} {
		var out bytes.Buffer
		Run(t.Context(), &Program{Stdout: &out, Stderr: &out, Terminal: true, Environ: []string{"NO_COLOR=1"},
			Catalog: func(c config.Config, log *slog.Logger) Catalog {
				return plugincatalog.Offline(parts.Plugins(), c, log)
			}}, args)
		const escaped = `a\x0ab\x1b[31mc\x1b[2J`
		if !strings.Contains(out.String(), escaped) || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%q: prints %q", args, out.String())
		}
	}
}
