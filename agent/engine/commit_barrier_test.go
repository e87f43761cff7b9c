package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// disks is a barrier where the sync for a pipeline takes some time and may fail.
type disks map[string]struct {
	takes time.Duration
	err   error
}

func (d disks) Sync(pipelines []string, done func([]string, error)) {
	for _, id := range pipelines {
		if d[id].takes == 0 {
			done([]string{id}, d[id].err)
			continue
		}
		time.AfterFunc(d[id].takes, func() { done([]string{id}, d[id].err) })
	}
}

// countingSource is a source whose position is the number of its Checkpoint calls.
type countingSource struct {
	id    string
	asked int
	saved []error
}

func (s *countingSource) Checkpoint() (spec.Checkpoint, bool) {
	s.asked++
	return spec.Checkpoint{PipelineID: s.id, ConnectorID: fmt.Sprint(s.id, s.asked), Position: record.Position("1")},
		true
}
func (s *countingSource) Saved(err error) { s.saved = append(s.saved, err) }

// A checkpoint is saved after the sync of its own data: a slow disk delays only the checkpoints that depend on it.
func TestCommitSyncsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		log := &commitLog{start: time.Now()}
		c := &engine.Committer{Store: log, CommitInterval: 50 * time.Millisecond, Barrier: disks{
			"slow": {takes: time.Second}, "bad": {takes: time.Millisecond, err: broken},
		}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		slow, bad, quick := &countingSource{id: "slow"}, &countingSource{id: "bad"}, &countingSource{id: "quick"}
		c.MarkDirty(slow, false)
		synctest.Wait()
		c.MarkDirty(slow, false) // again, while the first checkpoint waits for the disk
		c.MarkDirty(quick, false)
		c.MarkDirty(bad, false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !slices.Equal(log.commits, []string{"50ms [quick1]", "1s [slow1]", "2s [slow2]"}) {
			t.Errorf("got the commits %v", log.commits)
		}
		if !slices.Equal(bad.saved, []error{broken}) || !slices.Equal(slow.saved, []error{nil, nil}) {
			t.Errorf("sources were notified of %v and %v", bad.saved, slow.saved)
		}
		c.MarkDirty(slow, false)
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if last := log.commits[len(log.commits)-1]; last != "11s [slow3]" {
			t.Errorf("the last commit was %s, want that of what was being synced at the end", last)
		}
	})
}

// lateBarrier is a barrier whose first call fails during the second one, which finds nothing to sync.
type lateBarrier struct {
	err   error
	first func([]string, error)
}

func (l *lateBarrier) Sync(pipelines []string, done func([]string, error)) {
	if l.first == nil {
		l.first = done
		return
	}
	l.first(pipelines, l.err)
	done(pipelines, nil)
}

// sharingSource is a counting source of a pipeline with two sources.
type sharingSource struct{ countingSource }

func (s *sharingSource) Checkpoint() (spec.Checkpoint, bool) {
	c, ok := s.countingSource.Checkpoint()
	c.PipelineID = "p"
	return c, ok
}

// A source may depend on data that could not be synced for another source of its pipeline.
func TestCommitOfAPipelineThatCouldNotBeSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		log := &commitLog{start: time.Now()}
		c := &engine.Committer{Store: log, CommitInterval: time.Millisecond, Barrier: &lateBarrier{err: broken}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		a, b := &sharingSource{countingSource{id: "a"}}, &sharingSource{countingSource{id: "b"}}
		c.MarkDirty(a, false)
		time.Sleep(time.Second)
		c.MarkDirty(b, false)
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if len(log.commits) > 0 || !slices.Equal(a.saved, []error{broken}) || !slices.Equal(b.saved, []error{broken}) {
			t.Errorf("got the commits %v; sources were notified of %v and %v", log.commits, a.saved, b.saved)
		}
	})
}
