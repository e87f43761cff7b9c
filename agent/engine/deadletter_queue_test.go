package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/reconcile"
)

// A dead-letter queue whose process ends also ends the run, with or without a dead letter in progress.
func TestDeadLetterQueueThatBreaksEndsTheRun(t *testing.T) {
	for _, idle := range []bool{false, true} {
		t.Run(fmt.Sprint("idle ", idle), func(t *testing.T) {
			w := newWorld(t)
			w.spec.DeadLetterQueue.WindowSize = 0
			queue := &breaking{fakeDestination: w.queue}
			w.plugins.destinations["p:dead-letter-queue"] = queue
			w.source("src", 10)
			d := w.destination("dst", &fakeDestination{})
			if !idle {
				d.refuse = refuseEvery(10)
			}
			l := w.begin(t.Context())
			if idle {
				queue.settled(0, errors.New("process ended"))
			}
			err := l.wait()
			if err == nil || !strings.Contains(err.Error(), "dead-letter queue p:dead-letter-queue: process ended") {
				t.Errorf("the run ended with %v", err)
			}
		})
	}
}

// The same holds for a queue that stays while refusals become tolerated, but not for a replaced one.
func TestAmendedDeadLetterQueueThatBreaks(t *testing.T) {
	w := newWorld(t)
	w.source("src", 1<<30)
	w.destination("dst", &fakeDestination{})
	l := w.begin(t.Context())
	queue := &breaking{fakeDestination: &fakeDestination{t: t}}
	w.plugins.destinations["p:dead-letter-queue"] = queue
	w.spec.DeadLetterQueue.Settings = map[string]string{"v": "2"}
	l.become()
	w.queue.settle(0, errors.New("process of the first ended"))
	w.spec.DeadLetterQueue.WindowSize = 0
	w.destination("dst", &fakeDestination{refuse: refuseEvery(10)})
	l.become()
	if err := l.wait(); err == nil || !strings.Contains(err.Error(),
		"dead-letter queue p:dead-letter-queue: process ended") {
		t.Errorf("the run ended with %v", err)
	}
}

// slow takes some time for every batch.
type slow struct {
	*fakeDestination
	takes time.Duration
}

func (d *slow) Write(ctx context.Context, b *record.Batch) error {
	select {
	case <-time.After(d.takes):
		return d.fakeDestination.Write(ctx, b)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A dead-letter queue has as much time to answer as a destination. A destination that waits for it is not reported.
func TestDeadLetterQueuesThatTakeTheirTime(t *testing.T) {
	const limit = time.Second
	for _, test := range []struct {
		name     string
		takes    time.Duration // for a dead letter
		settings map[string]string
		draining bool
		fails    bool
	}{
		{"in time", limit * 9 / 10, nil, false, false},
		{"too late", limit * 11 / 10, nil, false, true},
		{"too late for a drain", limit * 11 / 10, nil, true, true},
		{"gathering", limit * 11 / 10, map[string]string{"sdk.batch.delay": "1s"}, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.ackTimeout = limit
				w.spec.DeadLetterQueue.WindowSize, w.spec.DeadLetterQueue.Settings = 0, test.settings
				w.plugins.destinations["p:dead-letter-queue"] = &slow{w.queue, test.takes}
				s := w.source("src", 5)
				s.maxBatch = 1 << 20 // five are refused at once, while others wait
				s.caughtUp = func() { s.total = 10 }
				d := w.destination("dst", &fakeDestination{async: true, reject: errors.New("bad batch")})
				err := w.run(func() bool {
					return s.ackedUpTo() == 10 || test.draining && d.written > 0
				})
				if failed := err != nil &&
					strings.Contains(err.Error(),
						"dead-letter queue p:dead-letter-queue has not responded for 1s"); failed != test.fails ||
					err != nil && !failed {
					t.Errorf("the run ended with %v, want a failure: %v", err, test.fails)
				}
				var p reconcile.Permanent
				if errors.As(err, &p) {
					t.Errorf("the error asks not to be retried: %v", err)
				}
			})
		})
	}
}

// If a dead-letter queue reports more results than it got dead letters, the surplus is no answer to the next dead
// letter.
func TestDeadLetterQueueThatAnswersTooMuch(t *testing.T) {
	w := newWorld(t)
	w.spec.DeadLetterQueue.WindowSize = 0
	w.queue.surplus = 1
	w.source("src", 1<<30)
	w.destination("dst", &fakeDestination{refuse: refuseEvery(10)})
	err := w.run(func() bool { return false })
	if err == nil || !strings.Contains(err.Error(),
		"cannot trust the dead-letter queue p:dead-letter-queue: it answered for more records than were written") {
		t.Errorf("the run ended with %v", err)
	}
	wantPermanent(t, err)
}

// A dead-letter queue that waits for more than one dead letter never gets the second.
func TestDeadLetterQueuesThatGather(t *testing.T) {
	for _, test := range []struct {
		settings, defaults map[string]string
		want               bool
	}{
		{map[string]string{"sdk.batch.size": "10"}, nil, false},
		{map[string]string{"sdk.batch.size": "10", "sdk.batch.delay": "1s"}, nil, true},
		{nil, map[string]string{"sdk.batch.size": "10"}, false},
		{map[string]string{"sdk.batch.size": "0"}, map[string]string{"sdk.batch.size": "10"}, true},
		{map[string]string{"sdk.batch.size": "1"}, nil, true},
	} {
		t.Run(fmt.Sprint(test.settings, test.defaults), func(t *testing.T) {
			w := newWorld(t)
			w.plugins.defaults["gathering"] = test.defaults
			w.source("src", 1)
			w.destination("dst", &fakeDestination{})
			l := w.begin(t.Context())
			w.spec.DeadLetterQueue.Plugin, w.spec.DeadLetterQueue.Settings = "gathering", test.settings
			a, amended := l.amend()
			if amended == nil {
				a.Discard(t.Context())
			}
			if err := l.stop(); err != nil {
				t.Error(err)
			}
			p := w.pipeline()
			started := p.Prepare(t.Context())
			if started == nil {
				p.Discard(t.Context())
			}
			for _, err := range []error{amended, started} {
				refused := err != nil && strings.Contains(err.Error(),
					"dead-letter queue p:dead-letter-queue: it would wait for 10 records")
				if refused == test.want || err != nil && !refused {
					t.Errorf("got %v, want none: %v", err, test.want)
				}
				wantPermanent(t, err)
			}
		})
	}
}

// A destination of dead letters that refuses one because of its content gets it in another form. A destination that
// refuses everything ends the run, as does one that fails.
func TestDeadLetterQueuesThatRefuse(t *testing.T) {
	text := func(r record.Record) string {
		b, err := record.AppendJSON(nil, &r)
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	refusing := func(what func(string) bool) func(record.Record) error {
		return func(r record.Record) error {
			if what(text(r)) {
				return errors.New("it does not fit")
			}
			return nil
		}
	}
	for _, test := range []struct {
		name   string
		queue  func(d *fakeDestination)
		kept   bool   // the agent keeps dead letters
		want   string // of the written dead letters
		failed string
	}{
		{"a character", func(d *fakeDestination) {
			d.refuse = refusing(func(s string) bool { return strings.Contains(s, `\u0000`) })
		}, true, `"recordBase64"`, ""},
		{"a character, nothing is kept", func(d *fakeDestination) {
			d.refuse = refusing(func(s string) bool { return strings.Contains(s, `\u0000`) })
		}, false, `"recordBase64"`, ""},
		{"the size", func(d *fakeDestination) {
			d.refuse = refusing(func(s string) bool { return len(s) > 600 })
		}, true, "which the agent keeps", ""},
		{"the size, nothing is kept", func(d *fakeDestination) {
			d.refuse = refusing(func(s string) bool { return len(s) > 600 })
		}, false, "", "dead-letter queue p:dead-letter-queue: it does not fit"},
		{"everything", func(d *fakeDestination) {
			d.refuse = refusing(func(string) bool { return true })
		}, true, "", "dead-letter queue p:dead-letter-queue: it does not fit"},
		{"writing fails", func(d *fakeDestination) { d.failAt = 1 }, true, "", "disk on fire"},
		{"it is lost", func(d *fakeDestination) {
			d.reject = sdk.Unavailable(errors.New("it is away"))
		}, true, "", "it is away"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.spec.DeadLetterQueue.WindowSize = 0
			test.queue(w.queue)
			s := w.source("src", 20)
			d := w.destination("dst", &fakeDestination{})
			refuse := refuseEvery(5)
			d.refuse = func(r record.Record) error {
				if refuse(r) == nil {
					return nil
				}
				return errors.New("no \x00: " + strings.Repeat("x", 300))
			}
			kept := 0
			if test.kept {
				w.keep = func(context.Context, *engine.DeadLetter) error { kept++; return nil }
			}
			err := w.run(func() bool { return s.ackedUpTo() == 20 })
			if test.failed == "" && err != nil || test.failed != "" &&
				(err == nil || !strings.Contains(err.Error(), test.failed)) {
				t.Errorf("the run ended with %v, want %q", err, test.failed)
			}
			if test.kept && kept == 0 {
				t.Error("nothing was kept")
			}
			if test.failed != "" {
				return
			}
			for _, r := range w.queue.records() {
				if !strings.Contains(text(r), test.want) {
					t.Errorf("written is %s", text(r))
				}
			}
			if n := len(w.queue.records()); n != 4 {
				t.Errorf("%d dead letters, want 4", n)
			}
		})
	}
}
