package otlp_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/telemetry/otlp"
)

func TestQueueSendsInOrderAndInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []int
		sizes := 0
		q := otlp.NewQueue(slog.New(slog.DiscardHandler), func(_ context.Context, batch []int) error {
			got = append(got, batch...)
			sizes = max(sizes, len(batch))
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { q.Run(ctx); close(ended) }()
		for n := range 2*otlp.BatchLength + 10 {
			q.Add(n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(got) != 2*otlp.BatchLength+10 || sizes != otlp.BatchLength {
			t.Errorf("%d numbers are sent, at most %d together", len(got), sizes)
		}
		q.Add(len(got))
		cancel()
		<-ended
		for i, n := range got {
			if i != n {
				t.Fatalf("number %d is %d", i, n)
			}
		}
		if sent, dropped := q.Counts(); sent != 2*otlp.BatchLength+11 || dropped != 0 {
			t.Errorf("%d are sent and %d dropped", sent, dropped)
		}
	})
}

func TestQueueDropsWhatACollectorDoesNotTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var fails atomic.Bool
		fails.Store(true)
		q := otlp.NewQueue(slog.New(slog.NewTextHandler(&log, nil)), func(ctx context.Context, batch []int) error {
			if !fails.Load() {
				return nil
			}
			<-ctx.Done() // a collector that does not answer
			return errors.New("no answer")
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { q.Run(ctx); close(ended) }()
		q.Add(0)
		time.Sleep(2 * time.Second) // it is being sent
		synctest.Wait()
		begin := time.Now()
		for n := range otlp.QueueLength + 100 {
			q.Add(n)
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("adding blocked for %v", took)
		}
		if _, dropped := q.Counts(); dropped != 100 {
			t.Errorf("%d are dropped, of 100 too many", dropped)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := strings.Count(log.String(), "cannot send"); n != 1 {
			t.Errorf("%d warnings, want one:\n%s", n, log.String())
		}
		fails.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := strings.Count(log.String(), "accepts telemetry again"); n != 1 {
			t.Errorf("%d notices, want one:\n%s", n, log.String())
		}
		fails.Store(true)
		for n := range 3 * otlp.BatchLength {
			q.Add(n)
		}
		time.Sleep(time.Second / 2)
		synctest.Wait()
		begin = time.Now()
		cancel()
		<-ended
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("the end took %v", took)
		}
		if sent, dropped := q.Counts(); sent+dropped != 1+otlp.QueueLength+100+3*otlp.BatchLength || sent == 0 {
			t.Errorf("%d are sent and %d dropped, which is not all", sent, dropped)
		}
	})
}
