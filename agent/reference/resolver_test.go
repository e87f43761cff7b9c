package reference

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/conduit-agent/conduit/agent/redact"
	"github.com/conduit-agent/conduit/spec"
)

// The files of a pipeline are watched from its first attempt until it is forgotten.
func TestForget(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rate")
	if err := os.WriteFile(path, []byte("7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &Resolver{Kinds: spec.ReferenceKinds{Env(), File(), Credential()}, Log: slog.New(slog.DiscardHandler)}
	d := &spec.Declaration{Generation: 1, Pipeline: spec.Pipeline{ID: "p",
		Connectors: []spec.Connector{{ID: "a", Settings: map[string]string{"rate": "${file:" + path + "}"}}}}}
	resolved, problems := r.Resolve(t.Context(), d)
	if len(problems) > 0 || resolved.Pipeline.Connectors[0].Settings["rate"] != "7" {
		t.Fatalf("resolved %+v, problems %v", resolved.Pipeline, problems)
	}
	if used := r.snapshot()["p"]; used == nil || !slices.Equal(slices.Collect(maps.Keys(used.all())), []string{path}) {
		t.Errorf("watches %+v", used)
	}
	if r.Forget("p"); len(r.snapshot()) != 0 {
		t.Errorf("still watches %+v", r.snapshot())
	}
}

// Settings of an earlier version whose references cannot be resolved any more are empty.
func TestRecall(t *testing.T) {
	t.Setenv("KNOWN", "canary-51c0a7")
	var secrets redact.Redactor
	r := &Resolver{Kinds: spec.ReferenceKinds{Env(), File(), Credential()}, Log: slog.New(slog.DiscardHandler)}
	settings, lost := r.Recall(map[string]string{"a": "x${KNOWN}", "c": "${GONE_NOW}", "b": "${GONE_TOO}",
		"d": "plain"}, &secrets)
	if want := map[string]string{"a": "xcanary-51c0a7", "b": "", "c": "", "d": "plain"}; !maps.Equal(settings, want) {
		t.Errorf("settings %v, want %v", settings, want)
	}
	if !slices.Equal(lost, []string{"b", "c"}) {
		t.Errorf("lost %v", lost)
	}
	if text := secrets.Text("canary-51c0a7"); text != "${KNOWN}" {
		t.Errorf("the value is shown as %s", text)
	}
}

// Problems that a retry may fix are distinguished from those that it cannot.
func TestPermanent(t *testing.T) {
	t.Setenv("SET", "x")
	t.Setenv("CREDENTIALS_DIRECTORY", t.TempDir())
	r := &Resolver{Kinds: spec.ReferenceKinds{Env(), File(), Credential()}, Log: slog.New(slog.DiscardHandler),
		Access: spec.ReferenceAccess{File: func(path string) error {
			if path == "/refused" {
				return errors.New("outside")
			}
			return nil
		}}}
	missing := filepath.Join(t.TempDir(), "missing")
	for settings, want := range map[string]struct {
		problems  int
		permanent bool
	}{
		"${SET}":                                {0, false},
		"${UNSET_HERE}":                         {1, true},
		"${UNSET_HERE:?why}":                    {1, true},
		"${file:" + missing + "}":               {1, false},
		"${SET}${file:" + missing + "}":         {1, false},
		"${file:/refused}":                      {1, true},
		"${credential:missing}":                 {1, true},
		"${UNSET_HERE} ${file:" + missing + "}": {1, true},
	} {
		p := spec.Pipeline{ID: "p", Connectors: []spec.Connector{{ID: "a", Settings: map[string]string{"s": settings}}}}
		resolved, problems := r.Resolve(t.Context(), &spec.Declaration{Pipeline: p})
		if len(problems) != want.problems || resolved.Permanent != want.permanent {
			t.Errorf("%s: permanent %v, %v", settings, resolved.Permanent, problems)
		}
	}
	two := spec.Pipeline{ID: "p", Connectors: []spec.Connector{{ID: "a",
		Settings: map[string]string{"a": "${file:" + missing + "}", "b": "${UNSET_HERE}"}}}}
	if resolved, problems := r.Resolve(t.Context(), &spec.Declaration{Pipeline: two}); !resolved.Permanent ||
		len(problems) != 2 {
		t.Errorf("a file that is missing hides a variable that is not set: %v", problems)
	}
}
