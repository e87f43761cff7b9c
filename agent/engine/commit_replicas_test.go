package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/spec"
)

// copies are replicas where replication for a pipeline takes some time and may fail.
type copies disks

func (c copies) Replicate(all []spec.Checkpoint, done func(string, error)) {
	for _, p := range all {
		time.AfterFunc(c[p.PipelineID].takes, func() { done(p.PipelineID, c[p.PipelineID].err) })
	}
}

// A saved checkpoint counts once it is replicated, independently of others; a source that is dirty again meanwhile is
// saved and replicated afterwards.
func TestCommitIsReplicated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		log := &commitLog{start: time.Now()}
		c := &engine.Committer{Store: log, CommitInterval: 50 * time.Millisecond,
			Replicas: copies{"slow": {takes: time.Second}, "bad": {takes: time.Millisecond, err: broken}}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		slow, bad, quick := &countingSource{id: "slow"}, &countingSource{id: "bad"}, &countingSource{id: "quick"}
		for _, s := range []*countingSource{slow, bad, quick} {
			c.MarkDirty(s, false)
		}
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if len(slow.saved) != 0 || !slices.Equal(bad.saved, []error{broken}) ||
			!slices.Equal(quick.saved, []error{nil}) {
			t.Errorf("before the slow one is replicated: slow %v, bad %v, quick %v", slow.saved, bad.saved, quick.saved)
		}
		c.MarkDirty(slow, false)
		time.Sleep(time.Second)
		synctest.Wait()
		if slow.asked != 2 || !slices.Equal(slow.saved, []error{nil}) {
			t.Errorf("once it is replicated: asked %d times, saved %v; want it to be saved again", slow.asked,
				slow.saved)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if !slices.Equal(slow.saved, []error{nil, nil}) {
			t.Errorf("at the end the slow one is saved %v, want twice", slow.saved)
		}
	})
}
