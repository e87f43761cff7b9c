package crash_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/process"
)

// killed collects the effects of kills.
type killed struct {
	mu                sync.Mutex
	at                []time.Time
	lives             []time.Duration // how long the agents ran
	starts            time.Duration   // the last measured time from a start to the first output
	records, repeated int
	oldest            time.Duration // maximum time from reading a repeated record to the previous kill
}

// Most agents are killed within tens of milliseconds after their first output, a few after seconds.
const (
	killedAfter = 50 * time.Millisecond
	killedLate  = 3 * time.Second
)

// kill kills an agent that was just started: in one of three cases during its start, otherwise after it wrote to all
// files.
func (k *killed) kill(t *testing.T, p *process.Process, paths ...string) {
	t.Helper()
	began := time.Now()
	after := rand.N(k.starts + killedAfter)
	if rand.IntN(3) > 0 {
		p.WaitGrowth(t, paths...)
		k.starts = time.Since(began)
		after = time.Duration(rand.ExpFloat64() * float64(killedAfter))
		if rand.IntN(50) == 0 {
			after = rand.N(killedLate)
		}
	}
	<-time.After(after)
	k.lives = append(k.lives, time.Since(began))
	p.Kill()
	k.at = append(k.at, time.Now())
}

// add adds the kills of another agent.
func (k *killed) add(other *killed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lives = append(k.lives, other.lives...)
	k.records, k.repeated, k.oldest = k.records+other.records, k.repeated+other.repeated, max(k.oldest, other.oldest)
}

// String reports the number of kills, the times, and the repeats.
func (k *killed) String() string {
	slices.Sort(k.lives)
	after := func(share float64) time.Duration {
		return k.lives[int(share*float64(len(k.lives)-1))].Round(time.Millisecond)
	}
	return fmt.Sprintf("%d kills, 10 %% within %v of the start, half within %v, 99 %% within %v, the last after %v: "+
		"%d records, %d repeated, read at most %v before the kill",
		len(k.lives), after(0.1), after(0.5), after(0.99), after(1), k.records, k.repeated,
		k.oldest.Round(time.Millisecond))
}

// feedRotated appends numbered lines until ctx ends and returns their number. Once rotate is closed, it renames the
// file every second and continues in a new one.
func feedRotated(ctx context.Context, path string, rate int, rotate <-chan struct{}) (n int) {
	for files := 1; ; files++ {
		one, done := context.WithCancel(ctx)
		go func() {
			defer done()
			select {
			case <-rotate:
			case <-one.Done():
				return
			}
			select {
			case <-time.After(time.Second):
			case <-one.Done():
			}
		}()
		n += process.Feed(one, path, rate/100, func(i int) string { return strconv.Itoa(n + i) })
		done()
		if ctx.Err() != nil {
			return n
		}
		if err := os.Rename(path, fmt.Sprintf("%s.%d", path, files)); err != nil {
			panic(err)
		}
	}
}
