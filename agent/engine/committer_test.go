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

// commitLog is a store that records which sources were saved and when.
type commitLog struct {
	engine.CheckpointStore
	start   time.Time
	commits []string
	fail    func(ids []string) error
}

func (l *commitLog) SaveCheckpoints(_ context.Context, positions []spec.Checkpoint) error {
	var ids []string
	for _, p := range positions {
		ids = append(ids, p.ConnectorID)
	}
	if l.fail != nil {
		if err := l.fail(ids); err != nil {
			return err
		}
	}
	l.commits = append(l.commits, fmt.Sprint(time.Since(l.start), ids))
	return nil
}

// dirtySource is a source with progress to save.
type dirtySource struct {
	checkpoint func() (spec.Checkpoint, bool)
	saved      func(error)
}

func (s dirtySource) Checkpoint() (spec.Checkpoint, bool) { return s.checkpoint() }
func (s dirtySource) Saved(err error)                     { s.saved(err) }

func dirty(id string, result *error) dirtySource {
	return dirtySource{
		checkpoint: func() (spec.Checkpoint, bool) {
			return spec.Checkpoint{ConnectorID: id, Position: record.Position("1")}, true
		},
		saved: func(err error) { *result = err },
	}
}

func TestCommitsAreGrouped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &commitLog{start: time.Now()}
		c := &engine.Committer{Store: log, CommitInterval: 50 * time.Millisecond}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		var err error
		time.Sleep(time.Second)
		c.MarkDirty(dirty("first", &err), false) // alone: at once
		synctest.Wait()
		time.Sleep(10 * time.Millisecond)
		c.MarkDirty(dirty("a", &err), false) // within the interval: together, at its end
		time.Sleep(10 * time.Millisecond)
		c.MarkDirty(dirty("b", &err), false)
		time.Sleep(100 * time.Millisecond)
		c.MarkDirty(dirty("c", &err), false)
		time.Sleep(time.Millisecond)
		c.MarkDirty(dirty("last", &err), true) // urgent: at once
		synctest.Wait()
		time.Sleep(time.Millisecond)
		c.MarkDirty(dirty("end", &err), false) // pending when Run ends
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		want := []string{"1s [first]", "1.05s [a b]", "1.12s [c]", "1.121s [last]", "1.122s [end]"}
		if !slices.Equal(log.commits, want) {
			t.Errorf("commits %q, want %q", log.commits, want)
		}
	})
}

func TestCommitThatFailsForOneSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := errors.New("fenced")
		log := &commitLog{start: time.Now(), fail: func(ids []string) error {
			if slices.Contains(ids, "bad") {
				return bad
			}
			return nil
		}}
		c := &engine.Committer{Store: log, CommitInterval: 50 * time.Millisecond}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		unset := errors.New("never reported")
		results := [3]error{unset, unset, unset}
		time.Sleep(time.Second)
		c.MarkDirty(dirty("warm-up", new(error)), false)
		synctest.Wait()
		for i, id := range []string{"a", "bad", "b"} {
			c.MarkDirty(dirty(id, &results[i]), false)
		}
		time.Sleep(time.Second)
		cancel()
		<-done
		if results != [3]error{nil, bad, nil} {
			t.Errorf("reported %v", results)
		}
	})
}

// A source that advances while its checkpoint is being saved may call MarkDirty at once, and is committed again.
func TestCommitOfASourceThatAdvances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saving, goOn := make(chan struct{}), make(chan struct{})
		log := &commitLog{start: time.Now(), fail: func([]string) error {
			saving <- struct{}{}
			<-goOn
			return nil
		}}
		c := &engine.Committer{Store: log, CommitInterval: 50 * time.Millisecond}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		calls := ""
		s := dirtySource{
			checkpoint: func() (spec.Checkpoint, bool) {
				calls += "checkpoint "
				return spec.Checkpoint{ConnectorID: "a"}, true
			},
			saved: func(error) { calls += "saved " },
		}
		c.MarkDirty(s, false)
		<-saving
		c.MarkDirty(s, false)
		goOn <- struct{}{}
		<-saving
		goOn <- struct{}{}
		cancel()
		<-done
		if want := "checkpoint saved checkpoint saved "; calls != want || len(log.commits) != 2 {
			t.Errorf("called %q, %d commits; want %q and 2", calls, len(log.commits), want)
		}
	})
}

// TestCommitsFollowDeadLetters checks that no checkpoint is saved before the dead letters that it covers are durable,
// nor when they cannot be.
func TestCommitsFollowDeadLetters(t *testing.T) {
	for _, failure := range []error{nil, errors.New("disk full")} {
		synctest.Test(t, func(t *testing.T) {
			log := &commitLog{start: time.Now()}
			saved := errors.New("not reported")
			c := &engine.Committer{Store: log, CommitInterval: time.Millisecond,
				Before: func(_ context.Context, all []spec.Checkpoint) error {
					if len(log.commits) > 0 || len(all) != 1 || all[0].ConnectorID != "a" {
						t.Errorf("called with %v after commits %v", all, log.commits)
					}
					return failure
				}}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- c.Run(ctx) }()
			c.MarkDirty(dirty("a", &saved), false)
			time.Sleep(time.Second)
			cancel()
			<-ended
			if !errors.Is(saved, failure) || (failure == nil) != (len(log.commits) == 1) {
				t.Errorf("with error %v: reported %v, commits %v", failure, saved, log.commits)
			}
		})
	}
}
