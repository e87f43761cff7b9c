package ui_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// tasks summarizes the tasks of the main thread of a page, which handles no input during a task.
type tasks struct {
	n, long       int           // long ones take more than 50 ms of wall time
	longest, wall time.Duration // maximum by thread time, and maximum by wall time
}

// traceEvent is a task in the trace of Chromium, with times in microseconds.
type traceEvent struct {
	Name, Ph  string
	Pid, Tid  int
	Dur, Tdur int64
	Args      struct{ Name string }
}

// trace adds the tasks of the page while what runs.
func (s *tasks) trace(p *page, what func()) {
	p.t.Helper()
	collected, complete := make(chan []traceEvent, 10000), make(chan bool, 1)
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	if err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *tracing.EventDataCollected:
			events := make([]traceEvent, 0, len(e.Value))
			for _, v := range e.Value {
				var one traceEvent
				if json.Unmarshal(v, &one) == nil && (one.Name == "RunTask" || one.Name == "thread_name") {
					events = append(events, one)
				}
			}
			collected <- events
		case *tracing.EventTracingComplete:
			complete <- e.DataLossOccurred
		}
	}); err != nil {
		p.t.Fatal(err)
	}
	config := &tracing.TraceConfig{IncludedCategories: []string{"disabled-by-default-devtools.timeline"},
		ExcludedCategories: []string{"*"}}
	p.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, tracing.Start, tracing.StartParams{TraceConfig: config})
		return chromedp.Void{}, err
	})
	what()
	p.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, tracing.End, cdp.Empty{})
		return chromedp.Void{}, err
	})
	select {
	case lost := <-complete:
		if lost {
			p.t.Error("events of the trace were lost")
		}
	case <-time.After(wait.Limit):
		p.t.Fatal("the trace does not end")
	}
	close(collected)
	s.add(p.t, collected)
}

// referenceTime is the thread time of the work of slowness on a machine on which the page renders in time.
const referenceTime = 30 * time.Millisecond

// slowness returns how much slower the page's thread is now than on that machine, at least 1.
func (p *page) slowness() float64 {
	p.t.Helper()
	// If the renderer starts tracing late, on a busy machine, the trace lacks the task: no machine finishes it in a
	// tenth of the time.
	var s tasks
	for s.longest < referenceTime/10 {
		s.trace(p, func() {
			p.eval(`(() => { const rows = Array.from({length: 60000}, (_, i) => ({id: "p" + (i * 7919) % 60000, n: ` +
				`i})); rows.sort((a, b) => a.id < b.id ? -1 : 1); return rows.length })()`)
		})
	}
	p.t.Logf("the reference takes %v", s.longest)
	return max(1, float64(s.longest)/float64(referenceTime))
}

// add adds the tasks among events.
func (s *tasks) add(t *testing.T, collected <-chan []traceEvent) {
	t.Helper()
	type thread struct{ pid, tid int }
	main, ran := map[thread]bool{}, []traceEvent{}
	for events := range collected {
		for _, e := range events {
			if e.Name == "thread_name" && e.Args.Name == "CrRendererMain" {
				main[thread{e.Pid, e.Tid}] = true
			} else if e.Name == "RunTask" && e.Ph == "X" {
				ran = append(ran, e)
			}
		}
	}
	before := s.n
	for _, e := range ran {
		if !main[thread{e.Pid, e.Tid}] {
			continue
		}
		s.n++
		wall := time.Duration(e.Dur) * time.Microsecond
		if wall > 50*time.Millisecond {
			s.long++
		}
		s.wall, s.longest = max(s.wall, wall), max(s.longest, time.Duration(e.Tdur)*time.Microsecond)
	}
	if s.n == before || s.longest == 0 {
		t.Errorf("the trace has no task of the page: %d events of %d threads", len(ran), len(main))
	}
}
