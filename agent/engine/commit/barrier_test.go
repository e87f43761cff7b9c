package commit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/commit"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// disks is a barrier where syncing for a pipeline takes a time and may fail.
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

// counting is a source of which the position is how often it was asked for it.
type counting struct {
	id    string
	asked int
	saved []error
}

func (s *counting) Checkpoint() (spec.Checkpoint, bool) {
	s.asked++
	return spec.Checkpoint{PipelineID: s.id, ConnectorID: fmt.Sprint(s.id, s.asked), Position: record.Position("1")}, true
}
func (s *counting) Saved(err error) { s.saved = append(s.saved, err) }

// What is saved was synced before, each for itself: a slow disk delays only what is on it.
func TestSyncsBeforeItSaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		log := &commitLog{start: time.Now()}
		c := &commit.Committer{Store: log, Interval: 50 * time.Millisecond, Barrier: disks{
			"slow": {takes: time.Second}, "bad": {takes: time.Millisecond, err: broken},
		}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		slow, bad, quick := &counting{id: "slow"}, &counting{id: "bad"}, &counting{id: "quick"}
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
