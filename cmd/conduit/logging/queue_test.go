package logging

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// gate is a reader of the log that reads nothing until it is opened.
type gate struct {
	open    chan struct{}
	entered chan struct{} // holds one value once a write has begun

	mu    sync.Mutex
	lines strings.Builder
}

func newGate() *gate { return &gate{open: make(chan struct{}), entered: make(chan struct{}, 1)} }

func (g *gate) Write(p []byte) (int, error) {
	select {
	case g.entered <- struct{}{}:
	default:
	}
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lines.Write(p)
}

func (g *gate) text() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lines.String()
}

func TestQueueNeverKeepsWhoLogsWaiting(t *testing.T) {
	g := newGate()
	q := NewQueue(g)
	log := slog.New(NewHandler(q, "journal", "info", false))
	log.Info("first")
	<-g.entered
	const lines = 100_000 // more than fit into the queue
	for i := range lines {
		log.Info(fmt.Sprintf("line %06d", i))
	}
	close(g.open)
	q.Close()
	text := g.text()
	var missing int
	last := text[strings.LastIndex(strings.TrimSuffix(text, "\n"), "\n")+1:]
	const report = "<4>WRN %d log lines were dropped: the reader was too slow\n"
	if _, err := fmt.Sscanf(last, report, &missing); err != nil {
		t.Fatalf("the last line is %q: %v", last, err)
	}
	if got := strings.Count(text, "\n"); got+missing != lines+2 || missing == 0 {
		t.Errorf("%d lines and %d missing, of %d", got, missing, lines+1)
	}
	if !strings.HasPrefix(text, "<6>INF first\n<6>INF line 000000\n<6>INF line 000001\n") {
		t.Errorf("begins with %.50q", text)
	}
}

func TestQueueBlocksOnlyTheLogDestination(t *testing.T) {
	g := newGate()
	q := NewQueue(g)
	log := slog.New(NewHandler(q, "journal", "info", false))
	delivered := make(chan struct{})
	log.Info("before")
	<-g.entered
	go func() {
		defer close(delivered)
		log.Info("", "record", json.RawMessage(`{"n":1}`))
	}()
	for range 1000 {
		log.Info("meanwhile")
	}
	select {
	case <-delivered:
		t.Error("a record that is not written was delivered")
	default:
	}
	close(g.open)
	<-delivered
	text := g.text()
	if !strings.HasPrefix(text, "<6>INF before\n") || !strings.HasSuffix(text, "<6>INF record={\"n\":1}\n") {
		t.Errorf("got %q", text)
	}
	q.Close()
}

func TestQueueFlushesOnClose(t *testing.T) {
	r, w := io.Pipe()
	q := NewQueue(w)
	log := slog.New(NewHandler(q, "json", "info", false))
	log.Info("one")
	read := bufio.NewReader(r)
	if line, err := read.ReadString('\n'); !strings.Contains(line, `"message":"one"`) {
		t.Errorf("got %q, %v", line, err)
	}
	log.Info("two")
	go func() { q.Close(); w.Close() }()
	if rest, err := io.ReadAll(read); !strings.Contains(string(rest), `"message":"two"`) {
		t.Errorf("got %q, %v", rest, err)
	}
}
