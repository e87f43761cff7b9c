package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// deadLettersAt serves dead letter 17 of the pipeline orders: replays and drops find it and no other, and an edited
// record must be valid for the agent, too.
func deadLettersAt(t *testing.T) (url string) {
	t.Helper()
	const letters = "/v1/pipelines/orders/dead-letters"
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, body any) { json.NewEncoder(w).Encode(body) }
	mux.HandleFunc("GET "+letters+"/17", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, spec.DeadLetter{ID: 17, PipelineID: "orders", Record: json.RawMessage(`{"operation":"create"}`)})
	})
	mux.HandleFunc("GET "+letters, func(w http.ResponseWriter, r *http.Request) {
		l := spec.DeadLetter{ID: 17, PipelineID: "orders", Error: longError}
		if r.URL.Query().Get("records") == "true" {
			l.Excerpt = "bad \u001b[31m" + strings.Repeat("x", 100)
		}
		answer(w, spec.DeadLetterPage{DeadLetters: []spec.DeadLetter{l, {ID: 16}}})
	})
	mux.HandleFunc("PUT "+letters+"/17", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		answer(w, map[string]any{"code": 3, "message": "the operation is unknown", "details": []any{map[string]any{
			"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "request.invalid", "domain": "conduit"}}})
	})
	mux.HandleFunc("DELETE "+letters, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, rest.DeadLettersDropped{Dropped: 1})
	})
	mux.HandleFunc("DELETE /v1/pipelines/empty/dead-letters", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, rest.DeadLettersDropped{})
	})
	mux.HandleFunc("GET /v1/dead-letters", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, []spec.DeadLetterTotals{{PipelineID: "orders", Count: 3}})
	})
	mux.HandleFunc("POST /v1/pipelines/orders/dead-letter-replay", func(w http.ResponseWriter, r *http.Request) {
		var request spec.ReplayRequest
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		replay := spec.Replay{PipelineID: "orders", Read: 1, Settled: 1, Cancelled: request.From == "first"}
		if request.From == "again" {
			replay.Settled, replay.Refused = 0, 1
		}
		answer(w, replay)
	})
	mux.HandleFunc("DELETE /v1/pipelines/orders/dead-letter-replay", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, spec.Replay{PipelineID: "orders", Read: 3, Settled: 2, Refused: 1})
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// longError is the error of a dead letter, with its cause at the end.
var longError = "cannot write" + strings.Repeat(" the long name of a record", 20) + ": its cause"

// TestDeadLettersThatAreNotThere names dead letters that do not exist: the others are replayed or dropped, and the exit
// code is 1. Duplicates count once, and a cancelled replay need not reach all.
func TestDeadLettersThatAreNotThere(t *testing.T) {
	t.Chdir(t.TempDir())
	url := deadLettersAt(t)
	const gone = "1 of the 2 dead letters are not there"
	for _, tt := range []struct {
		args, want string
		code       int
	}{
		{"dlq replay orders 17 99", gone, ExitRuntime},
		{"dlq replay orders 17 17", "", ExitOK},
		{"dlq replay orders 17 99 --from first", "", ExitOK},
		{"dlq replay orders --all", "", ExitOK},
		{"dlq drop orders 17 99", gone, ExitRuntime},
		{"dlq drop orders 17 17", "", ExitOK},
		{"dlq drop empty 99", "the dead letter is not there", ExitRuntime},
		{"dlq replay orders --all --from again", "1 of 1 dead letter refused again: 'conduit dlq ls orders'", ExitRuntime},
		{"dlq drop orders --all", "nothing was done: confirm, or add --yes", ExitInvalid},
		{"dlq drop orders --all --yes", "", ExitOK},
		{"dlq drop orders --key k", "nothing was done: confirm, or add --yes", ExitInvalid},
		{"dlq drop orders --key k --yes", "", ExitOK},
		{"dlq drop empty --all", "", ExitOK},
		{"dlq drop orders", "no dead letters selected", ExitInvalid},
		{"dlq drop orders 17 --all", "selected in several ways", ExitInvalid},
	} {
		var stdout, stderr bytes.Buffer
		p := &Program{Stdout: &stdout, Stderr: &stderr}
		code := Run(t.Context(), p, append(strings.Fields(tt.args), "--api.address", url))
		if code != tt.code || !strings.Contains(stderr.String(), tt.want) || tt.want == "" && stderr.Len() > 0 {
			t.Errorf("%s: code %d, want %d; %q, want %q", tt.args, code, tt.code, &stderr, tt.want)
		}
	}
}

// TestCancelOfNoReplay tells the result of an earlier replay from that of a cancelled one.
func TestCancelOfNoReplay(t *testing.T) {
	t.Chdir(t.TempDir())
	url := deadLettersAt(t)
	var stdout, stderr bytes.Buffer
	p := &Program{Stdout: &stdout, Stderr: &stderr}
	code := Run(t.Context(), p, []string{"dlq", "cancel", "orders", "--api.address", url})
	const want = "no replay is running; the last one: 3 dead letters replayed, of which 2 settled and 1 refused again\n"
	if code != ExitOK || stdout.String() != want {
		t.Errorf("code %d: %s%s", code, &stdout, &stderr)
	}
}

// TestListRecords lists dead letters with and without the beginnings of their records.
func TestListRecords(t *testing.T) {
	t.Chdir(t.TempDir())
	url := deadLettersAt(t)
	onTerminal := false
	list := func(args string) string {
		var stdout, stderr bytes.Buffer
		p := &Program{Stdout: &stdout, Stderr: &stderr, Terminal: onTerminal}
		if code := Run(t.Context(), p, append(strings.Fields("dlq ls orders "+args), "--api.address", url)); code != ExitOK {
			t.Errorf("%s: code %d, %s", args, code, &stderr)
		}
		return stdout.String()
	}
	if got := list(""); strings.Contains(got, "RECORD") || strings.Contains(got, "bad") {
		t.Errorf("without records:\n%s", got)
	}
	if got := list(""); !strings.Contains(got, longError+"\n") {
		t.Errorf("the error is cut where there is no terminal:\n%s", got)
	}
	onTerminal = true
	if got := list(""); !strings.Contains(got, "cannot write the long") || !strings.Contains(got, "…") ||
		!strings.Contains(got, ": its cause\n") || strings.Contains(got, longError) {
		t.Errorf("on a terminal:\n%s", got)
	}
	onTerminal = false
	got := list("--records")
	for _, want := range []string{"ERROR\n", "RECORD ",
		`bad \x1b[31m` + strings.Repeat("x", 68) + "…  " + longError + "\n", "-\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("with records:\n%s\nwant %q", got, want)
		}
	}
	if got := list("--records --json"); !strings.Contains(got, `"excerpt":`) && !strings.Contains(got, `"excerpt": `) {
		t.Errorf("as JSON: %s", got)
	}
}

// TestDropAsks asks before dead letters are dropped that were not named.
func TestDropAsks(t *testing.T) {
	t.Chdir(t.TempDir())
	url := deadLettersAt(t)
	for flags, want := range map[string]string{"--all": "Delete 3 dead letters of orders permanently?",
		"--error x": "Delete matching dead letters of orders permanently?", "17": ""} {
		for _, yes := range []bool{true, false} {
			var stdout, stderr bytes.Buffer
			asked := ""
			p := &Program{Stdout: &stdout, Stderr: &stderr, Ask: func(question string) bool {
				asked = question
				return yes
			}}
			code := Run(t.Context(), p, append(strings.Fields("dlq drop orders "+flags), "--api.address", url))
			dropped := yes || want == ""
			if asked != want || (code == ExitOK) != dropped || dropped != strings.Contains(stdout.String(), "dropped 1") {
				t.Errorf("%s: asked %q, code %d, %q %q", flags, asked, code, &stdout, &stderr)
			}
		}
	}
}

// TestEditKeepsRefusedText edits a dead letter so that it is no JSON, and so that the agent refuses it. The error shows
// the place, and the text of the editor is kept in a private file.
func TestEditKeepsRefusedText(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	url := deadLettersAt(t)
	for text, want := range map[string]string{
		"{\n  \"operation\": crate\n}\n": "the record is not JSON: line 2, column 16: invalid character 'c'",
		"{\"operation\":\"?\"}\n":        "the operation is unknown",
		"":                               "the record is not JSON: line 1, column 1: unexpected end",
	} {
		if err := os.WriteFile("text", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		abs, err := filepath.Abs("text")
		if err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		p := &Program{Stdout: &stdout, Stderr: &stderr, Environ: []string{"EDITOR=cp " + abs}}
		code := Run(t.Context(), p, []string{"dlq", "edit", "orders", "17", "--api.address", url})
		if code != ExitInvalid || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q: code %d, %q, want %q", text, code, &stderr, want)
		}
		kept := regexp.MustCompile(`--file (\S+)'`).FindStringSubmatch(stderr.String())
		if kept == nil {
			t.Fatalf("%q: no file is named in %q", text, &stderr)
		}
		content, err := os.ReadFile(kept[1])
		if err != nil || string(content) != text {
			t.Errorf("kept %q, %v; want %q", content, err, text)
		}
		if info, err := os.Stat(kept[1]); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the kept file: %v, %v; want mode 0600", info, err)
		}
	}
	if err := os.WriteFile("text", []byte(`{"operation":"?"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	p := &Program{Stdout: &bytes.Buffer{}, Stderr: &stderr}
	code := Run(t.Context(), p, []string{"dlq", "edit", "orders", "17", "--file", "text", "--api.address", url})
	if code != ExitInvalid || strings.Contains(stderr.String(), "--file") {
		t.Errorf("with --file: code %d, %q; want no other file", code, &stderr)
	}
}
