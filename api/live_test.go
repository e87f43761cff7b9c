package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/api"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// liveWorld is an agent to follow.
type liveWorld struct {
	mu       sync.Mutex
	statuses []rest.PipelineStatus
	files    []spec.FileState
	events   []spec.Event
	changed  chan struct{}
}

func (w *liveWorld) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *liveWorld) source() *api.Source {
	return &api.Source{
		Statuses: func(context.Context) ([]rest.PipelineStatus, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.Clone(w.statuses), nil
		},
		Files: func(context.Context) ([]spec.FileState, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.Clone(w.files), nil
		},
		Directory: func() spec.Directory { return spec.Directory{} },
		Events: func(_ context.Context, after int64, limit int) ([]spec.Event, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			var all []spec.Event
			for _, e := range w.events {
				if e.ID > after && len(all) < limit {
					all = append(all, e)
				}
			}
			return all, nil
		},
		Rates: func() []spec.PipelineRates {
			return []spec.PipelineRates{{ID: "p", Records: 5, Series: []float64{1, 2},
				Stages: map[string]spec.StageRates{"p:in": {}}},
				{ID: "q", Stages: map[string]spec.StageRates{"q:in": {}}}}
		},
		Stages: "p",
		Changed: func() <-chan struct{} {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.changed
		},
	}
}

// log collects sent messages.
type log struct {
	mu   sync.Mutex
	sent []string
}

func (l *log) send(name string, message any) error {
	b, err := json.Marshal(message)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, name+" "+string(b))
	return err
}

// take returns the messages sent since the previous call.
func (l *log) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.sent
	l.sent = nil
	return taken
}

func TestEverythingFirstThenWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &liveWorld{changed: make(chan struct{}), statuses: []rest.PipelineStatus{{ID: "p"}, {ID: "q"}},
			events: []spec.Event{{ID: 7, Reason: "Started"}}}
		ctx, cancel := context.WithCancel(t.Context())
		var l log
		done := make(chan error, 1)
		go func() { done <- w.source().Follow(ctx, l.send) }()
		synctest.Wait()
		first := l.take()
		if len(first) != 5 || !strings.Contains(first[0], `"all":true`) || !strings.Contains(first[0], `"id":"q"`) ||
			!strings.HasPrefix(first[1], "files") ||
			!strings.Contains(first[2], "Started") || !strings.Contains(first[4], `"series":[1,2]`) ||
			strings.Contains(first[3], "series") ||
			!strings.Contains(first[3], "p:in") || strings.Contains(first[3], "q:in") {
			t.Fatalf("first came %q", first)
		}

		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if ticked := l.take(); len(ticked) != 1 || !strings.HasPrefix(ticked[0], "rates") ||
			strings.Contains(ticked[0], "series") {
			t.Errorf("with nothing changed came %q", ticked)
		}

		w.change(func() {
			w.statuses = []rest.PipelineStatus{{ID: "p", Generation: 2}}
			w.events = append(w.events, spec.Event{ID: 8, Reason: "Stopped"})
		})
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		then := l.take()
		if len(then) != 3 || strings.Contains(then[0], `"all"`) || !strings.Contains(then[0], `"generation":2`) ||
			!strings.Contains(then[0], `"gone":["q"]`) ||
			!strings.Contains(then[1], "Stopped") || strings.Contains(then[1], "Started") {
			t.Errorf("after a change came %q", then)
		}

		w.change(func() {}) // of something that no page shows
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if again := l.take(); len(again) != 1 || !strings.HasPrefix(again[0], "rates") {
			t.Errorf("after a change of nothing shown came %q", again)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}

func TestFollowingEndsWithTheClient(t *testing.T) {
	w := &liveWorld{changed: make(chan struct{})}
	gone := errors.New("gone")
	if err := w.source().Follow(t.Context(), func(string, any) error { return gone }); !errors.Is(err, gone) {
		t.Errorf("it ended with %v", err)
	}
}

// A thousand pipelines come in messages of few.
func TestManyPipelinesComeInParts(t *testing.T) {
	w := &liveWorld{changed: make(chan struct{})}
	for i := range 120 {
		w.statuses = append(w.statuses, rest.PipelineStatus{ID: strconv.Itoa(i)})
	}
	var l log
	if err := w.source().Snapshot(t.Context(), l.send); err != nil {
		t.Fatal(err)
	}
	all, sizes := 0, []int{}
	for _, sent := range l.take() {
		if text, ok := strings.CutPrefix(sent, "statuses "); ok {
			sizes = append(sizes, strings.Count(text, `"generation"`))
			all += strings.Count(text, `"all":true`)
		}
	}
	if !slices.Equal(sizes, []int{50, 50, 20}) || all != 1 {
		t.Errorf("messages of %v, %d of which start over", sizes, all)
	}
}
