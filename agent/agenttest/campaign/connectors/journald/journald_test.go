package journald_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/journald"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func source(t testing.TB, j *server.Journal, pos record.Position, more ...string) *journald.Source {
	t.Helper()
	settings := map[string]string{"directory": j.Dir}
	for i := 0; i < len(more); i += 2 {
		settings[more[i]] = more[i+1]
	}
	return plugintest.OpenSource(t, &journald.Source{}, settings, pos)
}

func write(t testing.TB, j *server.Journal, fields string, messages ...string) {
	t.Helper()
	if err := j.Append(fields, messages...); err != nil {
		t.Fatal(err)
	}
}

func messageOf(r *record.Record) string {
	object, _ := r.After.Structured()
	text, _ := object["MESSAGE"].(string)
	return text
}

// want reads one entry per message, and compares them.
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

func fails(t *testing.T, s sdk.Source) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	_, err := s.Read(ctx)
	return err
}

func TestContract(t *testing.T) {
	load.Parallel(t, load.Server)
	source := func(t testing.TB, n int) map[string]string {
		j := server.NewJournal(t)
		var messages []string
		for i := range n {
			messages = append(messages, fmt.Sprint("message ", i))
		}
		write(t, j, "", messages...)
		return map[string]string{"directory": j.Dir}
	}
	plugintest.Run(t, plugintest.Target{Connector: journald.Connector(), Source: source})
}

func TestFollows(t *testing.T) {
	load.Parallel(t, load.Server)
	j := server.NewJournal(t)
	write(t, j,
		"_SYSTEMD_UNIT=a.service\nPRIORITY=3\nTWICE=1\nTWICE=2\nBINARY\n\x03\x00\x00\x00\x00\x00\x00\x00a\n\xff\n",
		"one")
	write(t, j, "_SYSTEMD_UNIT=b.service\nPRIORITY=6\n", "two")
	s := source(t, j, nil)
	records := want(t, s, "one", "two")
	object, _ := records[0].After.Structured()
	if b, _ := object["BINARY"].([]byte); string(b) != "a\n\xff" || fmt.Sprint(object["TWICE"]) != "[1 2]" ||
		object["PRIORITY"] != "3" || object["__CURSOR"] != nil {
		t.Errorf("got %v", object)
	}
	if md := records[0].Metadata; md.Get(record.KeyCollection) != "a.service" || md.Get(record.KeyCreatedAt) == "" {
		t.Errorf("metadata is %v", md)
	}
	write(t, j, "", "three")
	last := want(t, s, "three")
	if r := s.Progress(); r.Seconds == nil || *r.Seconds != 0 {
		t.Errorf("progress is %+v", r)
	}
	want(t, source(t, j, records[0].Position), "two", "three")
	write(t, j, "", "four")
	want(t, source(t, j, last[0].Position), "four")
	want(t, source(t, j, nil, "matches", "_SYSTEMD_UNIT=b.service"), "two")
	want(t, source(t, j, nil, "units", "a.service"), "one")
	want(t, source(t, j, nil, "priority", "err"), "one")
	newest := source(t, j, nil, "start", "newest")
	done := make(chan string)
	go func() {
		records, _ := newest.Read(t.Context())
		done <- messageOf(&records[0])
	}()
	for i := 0; ; i++ {
		write(t, j, "", fmt.Sprint("more ", i))
		select {
		case got := <-done:
			if !strings.HasPrefix(got, "more") {
				t.Errorf("got %q", got)
			}
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// TestGap removes the file with unread entries.
func TestGap(t *testing.T) {
	load.Parallel(t, load.Server)
	j := server.NewJournal(t)
	write(t, j, "", "one", "two", "three")
	pos := want(t, source(t, j, nil), "one", "two", "three")[0].Position
	file := filepath.Join(j.Dir, "system.journal")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	write(t, j, "", "four")
	if err := fails(t, source(t, j, pos)); err == nil ||
		!strings.Contains(err.Error(), "entries may have been missed") ||
		!strings.Contains(err.Error(), "set gap to continue") {
		t.Errorf("got %v", err)
	}
	s := source(t, j, pos, "gap", "continue")
	want(t, s, "four")
	if text := fmt.Sprint(s.Progress().Skipped); !strings.Contains(text, "entries may have been missed") {
		t.Errorf("left out: %s", text)
	}
}

// TestRunsAgain makes journalctl fail: without a journal there is nothing to read, until one exists.
func TestRunsAgain(t *testing.T) {
	load.Parallel(t, load.Server)
	j := server.NewJournal(t)
	dir := j.Dir
	j.Dir = filepath.Join(dir, "later")
	s := source(t, j, nil)
	done := make(chan error)
	go func() { _, err := s.Read(t.Context()); done <- err }()
	wait.For(t, "it says so", func() bool { return s.Progress().Warning != "" })
	if err := os.Mkdir(j.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, j, "", "one")
	if err := <-done; err != nil {
		t.Error(err)
	}
}
