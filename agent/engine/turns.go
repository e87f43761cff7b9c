package engine

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// What a source may read in one turn, and how long a turn counts as under way when what
// was read is not settled: a source may wait for records, and a destination for others.
// Where it is the processors that all wait for, it counts as such for longer.
const (
	turnRecords = 512
	turnBytes   = 256 << 10
	turnTime    = 10 * time.Millisecond
	maxTurnTime = 250 * time.Millisecond
)

// Turns has sources take turns when more of them have something to read than the
// processors can serve. Without it hundreds of busy pipelines would hold records that
// wait for a processor, and all else, commits among it, would wait behind them for one.
type Turns struct {
	most int // under way at a time

	mu      sync.Mutex
	begun   []*turn        // guarded by mu: in this order, from the first that is under way
	under   int            // guarded by mu: turns under way
	waiting []chan<- *turn // guarded by mu: who waits for a turn, longest first; capacity 1
	armed   bool           // guarded by mu: pass will be called when the time of the first turn is up
	late    time.Duration  // guarded by mu: by which it was called the last time
}

// turn is the right of a source to read some records.
type turn struct {
	at   time.Time // when it began
	over bool      // guarded by Turns.mu
}

// NewTurns returns turns enough to keep every processor busy reading and writing.
func NewTurns() *Turns { return &Turns{most: 4 * runtime.GOMAXPROCS(0)} }

// begin waits for a turn. It is under way until end is called or its time is up.
func (t *Turns) begin(ctx context.Context) (*turn, error) {
	t.mu.Lock()
	now := time.Now()
	t.pass(now)
	if t.under < t.most {
		defer t.mu.Unlock()
		return t.grant(now), nil
	}
	granted := make(chan *turn, 1)
	t.waiting = append(t.waiting, granted)
	t.arm(now)
	t.mu.Unlock()
	select {
	case turn := <-granted:
		return turn, nil
	case <-ctx.Done():
		t.leave(granted)
		return nil, context.Cause(ctx)
	}
}

// prolong reports whether a turn goes on: it is under way and nobody waits for one.
func (t *Turns) prolong(granted *turn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !granted.over && len(t.waiting) == 0
}

// grant begins a turn.
func (t *Turns) grant(now time.Time) *turn {
	granted := &turn{at: now}
	t.begun = append(t.begun, granted)
	t.under++
	return granted
}

// end says that what was read in a turn is settled, or that nothing more will be.
func (t *Turns) end(ended *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finish(ended)
	t.pass(time.Now())
}

func (t *Turns) finish(ended *turn) {
	if !ended.over {
		ended.over = true
		t.under--
	}
}

// pass ends the turns whose time is up and begins those of the sources that wait.
func (t *Turns) pass(now time.Time) {
	for len(t.begun) > 0 && (t.begun[0].over || now.Sub(t.begun[0].at) >= t.time()) {
		t.finish(t.begun[0])
		t.begun = t.begun[1:]
	}
	for t.under < t.most && len(t.waiting) > 0 {
		t.waiting[0] <- t.grant(now)
		t.waiting = t.waiting[1:]
	}
	t.arm(now)
}

// arm has pass called in time when somebody waits.
func (t *Turns) arm(now time.Time) {
	if t.armed || len(t.waiting) == 0 {
		return
	}
	t.armed = true
	due := t.begun[0].at.Add(t.time())
	time.AfterFunc(due.Sub(now), func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		now := time.Now()
		t.armed, t.late = false, now.Sub(due)
		t.pass(now)
	})
}

// time returns how long a turn is under way. Whoever wants a processor waits for as long
// as the timer was late, and a turn takes several such waits.
func (t *Turns) time() time.Duration { return min(turnTime+4*t.late, maxTurnTime) }

// leave is for one who waits no longer.
func (t *Turns) leave(granted chan *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, (chan<- *turn)(granted)); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
		return
	}
	t.finish(<-granted)
	t.pass(time.Now())
}
