package journald_test

import (
	"context"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/journald"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func TestSettings(t *testing.T) {
	for text, settings := range map[string]map[string]string{
		`"matches": must be NAME=VALUE`:   {"matches": "--flush"},
		`"namespace": cannot be set with`: {"directory": "x", "namespace": "y"},
	} {
		s := &journald.Source{}
		if err := s.Configure(t.Context(), s.Parameters().ApplyDefaults(settings)); err == nil ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
	s := &journald.Source{}
	if err := s.Open(t.Context(), record.Position("5")); err == nil || !strings.Contains(err.Error(), "not a cursor") {
		t.Errorf("got %v", err)
	}
}

func messageOf(r *record.Record) string {
	object, _ := r.After.Structured()
	text, _ := object["MESSAGE"].(string)
	return text
}

// want reads one entry per message and compares them.
func want(t testing.TB, s sdk.Source, messages ...string) (all []record.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	for len(all) < len(messages) {
		records, err := s.Read(ctx)
		if err != nil {
			t.Fatalf("after %d of %d entries: %v", len(all), len(messages), err)
		}
		all = append(all, records...)
	}
	for i := range all {
		if got := messageOf(&all[i]); i >= len(messages) || got != messages[i] {
			t.Fatalf("entry %d is %q, want %q", i, got, messages)
		}
	}
	return all
}
