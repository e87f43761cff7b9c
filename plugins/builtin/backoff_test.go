package builtin_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
)

// Pauses double from 100 ms to 30 s. Jitter reduces them by up to half.
func TestNext(t *testing.T) {
	var b common.Backoff
	for most := 100 * time.Millisecond; b.Tries < 100; most = min(2*most, 30*time.Second) {
		if d := b.Next(); d < most/2 || d > most {
			t.Fatalf("pause %d is %v, want %v to %v", b.Tries, d, most/2, most)
		}
	}
}

// Repeat restarts with short pauses after a session has called works. It ends with an error for which a retry does not
// help, or with the context.
func TestRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost, fatal := errors.New("lost"), errors.New("fatal")
		sessions, began := 0, time.Now()
		retry := func(err error) bool { return err == lost }
		common.Repeat(t.Context(), func(works func()) error {
			switch sessions++; {
			case sessions == 10:
				if waited := time.Since(began); waited < 25*time.Second {
					t.Errorf("nine failures took %v", waited)
				}
				began = time.Now()
				works()
			case sessions == 11:
				if waited := time.Since(began); waited > 100*time.Millisecond {
					t.Errorf("the pause after a session that worked is %v", waited)
				}
				return nil
			case sessions == 12:
				return fatal
			}
			return lost
		}, retry)
		if sessions != 12 {
			t.Errorf("%d sessions, want 12", sessions)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		common.Repeat(ctx, func(func()) error { return lost }, retry)
		if ctx.Err() == nil {
			t.Error("it ended before its context")
		}
	})
}
