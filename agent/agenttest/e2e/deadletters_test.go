package e2e_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// picky is a pipeline that tails lines into a file and refuses those with the word bad in
// them. more goes below the pipeline.
func picky(dir, condition, more string) string {
	return fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p
    connectors:
      - {id: src, type: source, plugin: builtin:file, settings: {path: %[1]s/in.log}}
      - {id: dst, type: destination, plugin: builtin:file, settings: {path: %[1]s/out.jsonl}}
    processors:
      - {id: check, plugin: error, condition: '%[2]s', settings: {message: it is bad}}
%[3]s`, dir, condition, more)
}

const (
	isBad    = `{{ contains "bad" (printf "%s" .Payload.After) }}`
	tolerant = "    dead-letter-queue: {window-size: 0}\n"
)

func appendTo(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// letters returns the dead letters of the pipeline p, newest first.
func (w *web) letters() []rest.DeadLetter {
	w.t.Helper()
	page, err := w.api.DeadLetters(w.t.Context(), "p", rest.DeadLetterFilter{}, 0, 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	return page.DeadLetters
}

// The record that stops a pipeline is kept, once however often it does so.
func TestDeadLetterThatStopsThePipeline(t *testing.T) {
	w := startWeb(t, "")
	appendTo(t, w.Path("in.log"), "good\nbad one\n")
	w.Save("p.yaml", picky(w.Dir, isBad, ""))
	w.WaitPhase("p", spec.PhaseDegraded, 0)
	if l := w.letters(); len(l) != 1 || !l[0].Stopped || l[0].Stage != rest.StagePipelineProcessor || l[0].RefusedBy != "p:check" || l[0].Generation != 1 || !strings.Contains(l[0].Error, "it is bad") {
		t.Fatalf("kept is %+v", l)
	}
	if err := w.api.StartPipeline(t.Context(), "p"); err == nil {
		w.WaitPhase("p", spec.PhaseDegraded, 0)
	}
	w.Wait("it to be refused again", func() bool { l := w.letters(); return len(l) == 1 && l[0].Times == 2 })
	w.Save("p.yaml", picky(w.Dir, isBad, tolerant))
	w.Wait("it to be settled", func() bool { l := w.letters(); return len(l) == 1 && !l[0].Stopped && l[0].Generation == 2 })
	if l, err := w.api.DeadLetter(t.Context(), "p", "1"); err != nil || len(l.Refusals) != 3 || !strings.Contains(string(l.Record), "YmFkIG9uZQ==") {
		t.Errorf("it is %+v, %v", l, err)
	}
}
