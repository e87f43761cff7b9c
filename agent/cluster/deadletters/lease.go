package deadletters

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

// A replay has a lease, so that two members do not replay the same dead letters, and so that every member can see the
// replay and cancel it.
const (
	leaseTTL = 30 * time.Second
	endedFor = 10 * time.Minute // lifetime of a released lease, which tells how the replay ended

	leaseSuffix = ".replay" // follows the key of the queue
)

var (
	leaseRenew = 5 * time.Second
	cancelWait = 6 * time.Second // for an answer; above leaseRenew, in case the replaying member missed the change
)

// lease is the value of a lease key.
type lease struct {
	Format int    `json:"format"`
	Member string `json:"member"` // "" after the release
	Stamp  string `json:"stamp"`
	Cancel bool   `json:"cancel,omitempty"` // a cancellation was requested
	// Replay is the progress of the replay at the last write of the lease. Its Member stays after the release.
	Replay *spec.Replay `json:"replay,omitempty"`
}

// status returns the progress of the replay that has this lease.
func (l *lease) status(pipeline string) spec.Replay {
	r := spec.Replay{}
	if l.Replay != nil {
		r = *l.Replay
	}
	r.Member = cmp.Or(l.Member, r.Member)
	r.PipelineID, r.Running, r.Cancelled = pipeline, l.Member != "", r.Cancelled || l.Cancel
	return r
}

// answered reports whether the replaying member knows of the cancellation.
func (l *lease) answered() bool { return l.Member == "" || l.Replay != nil && l.Replay.Cancelled }

// seenLease is a lease as this member last saw it, and when.
type seenLease struct {
	lease
	revision uint64
	at       time.Time
}

// leases holds the leases of the replays of all members.
type leases struct {
	keys
	member string // this member

	mu       sync.Mutex
	seen     map[string]seenLease    // guarded by mu: by key
	reserved map[string]*reservation // guarded by mu: leases of this agent, by key
}

// reservation is a lease that this agent has.
type reservation struct {
	leases *leases
	key    string
	mine   lease
	status func() spec.Replay
	cancel func(why error)
	asked  notify.Signal // a cancellation was requested
}

func leaseKey(pipeline string) string { return protocol.DeadLettersKey(pipeline) + leaseSuffix }

// note records the current value of a lease.
func (ls *leases) note(e protocol.Entry) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := seenLease{revision: e.Revision, at: time.Now()}
	if json.Unmarshal(e.Value, &l.lease) != nil || l.Format > format || l.revision <= ls.seen[e.Key].revision {
		return
	}
	ls.seen[e.Key] = l
	if r := ls.reserved[e.Key]; r != nil && l.Cancel && l.Stamp == r.mine.Stamp && !l.answered() {
		r.asked.Notify()
	}
}

// begin takes the lease of a replay, and renews it until end is called with the final status of the replay. cancel is
// called when the lease is lost, or when another member cancels the replay.
func (ls *leases) begin(
	ctx context.Context, pipeline string, status func() spec.Replay, cancel func(why error),
) (end func(spec.Replay), err error) {
	r := &reservation{leases: ls, key: leaseKey(pipeline), mine: lease{Format: format, Member: ls.member,
		Stamp: rand.Text()}, status: status, cancel: cancel, asked: notify.NewSignal()}
	try, stop := context.WithTimeout(ctx, askTimeout)
	defer stop()
	holder, err := r.take(try)
	switch {
	case err != nil:
		return nil, unavailable(pipeline, err)
	case holder != "":
		return nil, &spec.Error{Kind: spec.ErrBusy, Code: spec.CodePipelineRunning, Pipeline: pipeline,
			Message: fmt.Sprintf("dead letters of pipeline %q are being replayed on the member %s of the cluster",
				pipeline, holder),
			Suggestion: "wait until the replay has ended, or cancel it, for example with conduit dlq cancel; if that " +
				"member has died, they can be replayed after half a minute"}
	}
	ls.mu.Lock()
	ls.reserved[r.key] = r
	ls.mu.Unlock()
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	go r.renew(renewing)
	return func(last spec.Replay) {
		stop()
		ls.mu.Lock()
		delete(ls.reserved, r.key)
		ls.mu.Unlock()
		try, stop := context.WithTimeout(context.WithoutCancel(ctx), tryTimeout)
		defer stop()
		_ = r.giveUp(try, last) // it expires in any case
	}, nil
}

// take takes the lease, unless another replay has it; holder is then the member with that lease.
func (r *reservation) take(ctx context.Context) (holder string, err error) {
	now := r.status()
	err = r.leases.swap(ctx, always, r.key, func(e *protocol.Entry) (time.Duration, bool, error) {
		if there := leaseOf(e); there.Stamp != r.mine.Stamp && there.Member != "" {
			holder = there.Member
			return 0, true, nil
		}
		return leaseTTL, false, r.put(e, now)
	})
	return holder, err
}

// leaseOf decodes the lease in an entry. An entry without value gives an empty lease.
func leaseOf(e *protocol.Entry) (l lease) {
	if e.Value == nil || json.Unmarshal(e.Value, &l) != nil {
		return lease{}
	}
	return l
}

// put encodes the lease with the present progress into an entry.
func (r *reservation) put(e *protocol.Entry, now spec.Replay) (err error) {
	l := r.mine
	if now.Member = r.leases.member; !now.Started.IsZero() {
		l.Replay = &now
	}
	l.Cancel = now.Cancelled
	e.Value, err = json.Marshal(&l)
	return err
}

// errLeaseLost ends a replay whose dead letters another member may replay.
var errLeaseLost = errors.New("the replay ended: it had no lease from the store of the cluster for half a minute, so " +
	"another member may replay the same dead letters; unsettled dead letters are still in the queue, so replay it " +
	"again")

// renew renews the lease until ctx ends. It ends the replay when another member cancels it or the lease is lost.
func (r *reservation) renew(ctx context.Context) {
	tick := time.NewTicker(leaseRenew)
	defer tick.Stop()
	for renewed := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-r.asked:
		case <-tick.C:
		}
		sent := time.Now()
		try, stop := context.WithDeadline(ctx, renewed.Add(leaseTTL))
		there, err := r.extend(try)
		stop()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil || !there:
			r.cancel(errLeaseLost)
			return
		}
		renewed = sent
	}
}

// extend writes the progress of the replay, and ends the replay if its cancellation was requested. there is false if
// the lease is lost.
func (r *reservation) extend(ctx context.Context) (there bool, err error) {
	err = r.leases.swap(ctx, always, r.key, func(e *protocol.Entry) (time.Duration, bool, error) {
		l := leaseOf(e)
		if there = l.Stamp == r.mine.Stamp && l.Member != ""; !there {
			return 0, true, nil
		}
		if l.Cancel {
			r.cancel(nil)
		}
		return leaseTTL, false, r.put(e, r.status())
	})
	return there, err
}

// giveUp releases the lease with the final status of the replay.
func (r *reservation) giveUp(ctx context.Context, last spec.Replay) error {
	return r.leases.swap(ctx, always, r.key, func(e *protocol.Entry) (time.Duration, bool, error) {
		if there := leaseOf(e); there.Stamp != r.mine.Stamp || there.Member == "" {
			return 0, true, nil
		}
		r.mine.Member = ""
		return endedFor, false, r.put(e, last)
	})
}

// status returns the progress or the final status of the replay of a pipeline; ok is false if no replay is known.
func (ls *leases) status(ctx context.Context, pipeline string) (status spec.Replay, ok bool) {
	l, ok := ls.get(pipeline)
	if !ok || l.Member == "" && l.Replay == nil {
		return status, false
	}
	if l.Member != "" && time.Since(l.at) >= leaseTTL { // a store does not report that a key expired
		e, err := ls.read(ctx, leaseKey(pipeline))
		switch {
		case err != nil:
			status = l.status(pipeline)
			status.Message = fmt.Sprintf("the member %s has not reported its progress for %s, and the store of the "+
				"cluster is unreachable", l.Member, time.Since(l.at).Round(time.Second))
			return status, true
		case e.Value == nil:
			return ls.expired(pipeline, l), true
		}
		ls.noted(e)
		l, _ = ls.get(pipeline)
	}
	status = l.status(pipeline)
	if l.Cancel && !l.answered() {
		status.Message = fmt.Sprintf(
			"the member %s has not responded: the replay ends when it responds, or when that member ends", l.Member)
	}
	return status, true
}

// get returns the lease of a pipeline as this member last saw it.
func (ls *leases) get(pipeline string) (l seenLease, ok bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l, ok = ls.seen[leaseKey(pipeline)]
	return l, ok
}

// expired handles a lease that expired without a release.
func (ls *leases) expired(pipeline string, l seenLease) spec.Replay {
	status := l.status(pipeline)
	status.Running, status.Error = false,
		fmt.Sprintf("it ended with the member %s, which did not report a result; unsettled dead letters are still in "+
			"the queue", l.Member)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if key := leaseKey(pipeline); ls.seen[key].revision == l.revision {
		l.Member, l.Replay = "", &status
		ls.seen[key] = l
	}
	return status
}

// cancel requests the cancellation of a replay, and waits for up to cancelWait for the replaying member to answer.
func (ls *leases) cancel(ctx context.Context, pipeline string) error {
	try, stop := context.WithTimeout(ctx, askTimeout)
	defer stop()
	runs := false
	err := ls.swap(try, always, leaseKey(pipeline), func(e *protocol.Entry) (_ time.Duration, done bool, err error) {
		l := leaseOf(e)
		if runs = l.Member != ""; !runs || l.Cancel {
			return 0, true, nil
		}
		l.Cancel = true
		e.Value, err = json.Marshal(&l)
		return leaseTTL, false, err // written once, so that the lease of a dead member expires
	})
	switch l, known := ls.get(pipeline); {
	case err != nil:
		return unavailable(pipeline, err)
	case !runs && known && l.Member != "": // it expired
		ls.expired(pipeline, l)
	}
	waiting, stop := context.WithTimeout(ctx, cancelWait)
	defer stop()
	for runs && waiting.Err() == nil {
		if l, _ := ls.get(pipeline); l.answered() {
			break
		}
		select {
		case <-waiting.Done():
		case <-time.After(retryPause / 2):
		}
	}
	return nil
}

// isLease reports whether a key is a lease key.
func isLease(key string) bool { return strings.HasSuffix(key, leaseSuffix) }
