package telemetry_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/telemetry"
)

func newLog(l *telemetry.LogTail) *slog.Logger {
	return slog.New(l.Handler(slog.NewTextHandler(io.Discard, nil)))
}

func TestLinesBelongToPipelines(t *testing.T) {
	l := &telemetry.LogTail{}
	log := newLog(l)
	log.Info("of no pipeline", "component", "agent")
	log.Warn("failed", "pipeline_id", "p", "err", errors.New("refused"))
	log.With("component", "plugin", "connector_id", "p:in").WithGroup("g").Info("said", "n", 3,
		slog.Group("h", "k", []byte("v")))
	log.With("pipeline_id", "q").Error("other")
	log.WithGroup("g").Info("a field of that name", "pipeline_id", "p")
	var got []string
	for _, line := range l.Read([]string{"p", "p:in"}, 0, 10) {
		got = append(got, fmt.Sprint(line.Level, " ", line.Message, " ", line.Fields))
	}
	want := []string{"warn failed map[err:refused pipeline_id:p]",
		"info said map[component:plugin connector_id:p:in g.h.k:v g.n:3]"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	got = nil
	for _, line := range l.Read(nil, 1, 10) {
		got = append(got, line.Message)
	}
	want = []string{"failed", "said", "other", "a field of that name"}
	if all := l.Read(nil, 0, 10); !slices.Equal(got, want) || len(all) != 5 || all[0].Message != "of no pipeline" {
		t.Errorf("of the agent and all pipelines: %q after the first, want %q; all are %v", got, want, all)
	}
	newest := l.Read([]string{"p", "q"}, 0, 1)
	if len(newest) != 1 || newest[0].Message != "other" || len(l.Read([]string{"q"}, newest[0].ID, 10)) != 0 {
		t.Errorf("the newest line is %v", newest)
	}
	l.Forget("q")
	if left := l.Read([]string{"q"}, 0, 10); len(left) != 0 {
		t.Errorf("forgotten, but there is %v", left)
	}
}

// A handler passes on its attributes and groups, whenever its parent gets a line.
func TestHandlersArePreparedByTheirFirstLine(t *testing.T) {
	var out bytes.Buffer
	lines := &telemetry.LogTail{}
	log := slog.New(lines.Handler(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})))
	parent := log.With("pipeline_id", "p")
	child, group := parent.With("connector_id", "p:in", "a", 1), parent.WithGroup("g").With("b", 2)
	empty := child.WithGroup("").With()
	parent.Info("first")
	child.Info("second", "c", 3)
	group.Info("third", "c", 3)
	empty.Info("fourth")
	group.WithGroup("h").Info("fifth", "d", 4)
	if child.Enabled(t.Context(), slog.LevelDebug) || !child.Enabled(t.Context(), slog.LevelInfo) {
		t.Error("a handler with attributes is not enabled for the levels of the first one")
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), " msg=")
		got = append(got, text)
	}
	want := []string{"first pipeline_id=p", "second pipeline_id=p connector_id=p:in a=1 c=3",
		"third pipeline_id=p g.b=2 g.c=3", "fourth pipeline_id=p connector_id=p:in a=1",
		"fifth pipeline_id=p g.b=2 g.h.d=4"}
	if !slices.Equal(got, want) {
		t.Errorf("the handler behind wrote\n%q, want\n%q", got, want)
	}
	kept := lines.Read([]string{"p"}, 0, 10)
	if last := fmt.Sprint(kept[len(kept)-1].Fields); last != "map[g.b:2 g.h.d:4 pipeline_id:p]" {
		t.Errorf("the fields of the last line are %s", last)
	}
}

func TestLinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &telemetry.LogTail{}
		log := newLog(l)
		for range 5 {
			for range 1000 {
				log.Info("flood", "pipeline_id", "p")
			}
			time.Sleep(time.Second)
		}
		log.Info(strings.Repeat("x", 1<<20), "pipeline_id", "p")
		lines := l.Read([]string{"p"}, 0, 10_000)
		if n := len(lines); n != 200 || len(lines[n-1].Message) > 3000 || lines[n-1].Dropped != 900 ||
			lines[n-101].Dropped != 900 {
			t.Errorf("%d lines of a flood, the last one of %d bytes after %d others", n, len(lines[n-1].Message),
				lines[n-1].Dropped)
		}
		for i := range 100 {
			for range 100 {
				log.Info("large", "pipeline_id", fmt.Sprint(i), "text", strings.Repeat("x", 2000))
			}
		}
		total := 0
		for i := range 100 {
			total += len(l.Read([]string{fmt.Sprint(i)}, 0, 1000))
		}
		if total < 3000 || total > 4200 {
			t.Errorf("%d lines of 2000 bytes are kept in 8 MiB", total)
		}
	})
}

func TestChanged(t *testing.T) {
	l := &telemetry.LogTail{}
	changed := l.Changed()
	newLog(l).Info("line", "pipeline_id", "p")
	select {
	case <-changed:
	default:
		t.Error("a line came, and the channel is open")
	}
}
