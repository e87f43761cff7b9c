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
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec/notify"
)

// A replay has a lease, so that two members do not replay the same dead letters, and so that each of them knows of it and can ask it
// to end.
const (
	leaseTTL = 30 * time.Second
	endedFor = 10 * time.Minute // that a lease which was given up is kept, for how the replay ended

	leaseSuffix = ".replay" // of its key, behind that of the queue
)

var (
	leaseRenew = 5 * time.Second
	cancelWait = 6 * time.Second // for the member that replays to answer: it looks at its lease this often, should it miss that it changed
)

// lease is the value of the key of a lease.
type lease struct {
	Format int    `json:"format"`
	Member string `json:"member"` // "" when it was given up
	Stamp  string `json:"stamp"`
	Cancel bool   `json:"cancel,omitempty"` // it is asked to end
	// Replay is how far it was when its member wrote the lease last. Its member is there when it was given up, too.
	Replay *rest.Replay `json:"replay,omitempty"`
}

// status returns how far the replay is that a lease is of.
func (l *lease) status(pipeline string) rest.Replay {
	r := rest.Replay{}
	if l.Replay != nil {
		r = *l.Replay
	}
	r.Member = cmp.Or(l.Member, r.Member)
	r.PipelineID, r.Running, r.Cancelled = pipeline, l.Member != "", r.Cancelled || l.Cancel
	return r
}

// answered reports whether the member of a replay knows that it is to end.
func (l *lease) answered() bool { return l.Member == "" || l.Replay != nil && l.Replay.Cancelled }

// seenLease is a lease as it was seen last, and when.
type seenLease struct {
	lease
	revision uint64
	at       time.Time
}

// leases are those of the replays of all members.
type leases struct {
	keys
	member string // this one

	mu       sync.Mutex
	seen     map[string]seenLease    // guarded by mu: by key
	reserved map[string]*reservation // guarded by mu: those of this agent, by key
}

// reservation is a lease that this agent has.
type reservation struct {
	leases *leases
	key    string
	mine   lease
	status func() rest.Replay
	cancel func(why error)
	asked  notify.Signal // it is to end
}

func leaseKey(pipeline string) string { return protocol.LettersKey(pipeline) + leaseSuffix }

// note takes what a lease is now.
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

// begin takes the lease of a replay, and keeps it until end is called with how the replay ended. When it is lost, or another member
// asks the replay to end, cancel is called.
func (ls *leases) begin(ctx context.Context, pipeline string, status func() rest.Replay, cancel func(why error)) (end func(rest.Replay), err error) {
	r := &reservation{leases: ls, key: leaseKey(pipeline), mine: lease{Format: format, Member: ls.member, Stamp: rand.Text()}, status: status, cancel: cancel, asked: notify.NewSignal()}
	try, stop := context.WithTimeout(ctx, askTimeout)
	defer stop()
	holder, err := r.take(try)
	switch {
	case err != nil:
		return nil, unavailable(pipeline, err)
	case holder != "":
		return nil, rest.Errorf(rest.Aborted, rest.ReasonPipelineRunning, "dead letters of pipeline %q are being replayed on the member %s of the cluster", pipeline, holder).
			With("pipelineId", pipeline).Suggest("wait until that has ended, or end it, as with conduit dlq cancel; half a minute after that member died they can be replayed")
	}
	ls.mu.Lock()
	ls.reserved[r.key] = r
	ls.mu.Unlock()
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	go r.renew(renewing)
	return func(last rest.Replay) {
		stop()
		ls.mu.Lock()
		delete(ls.reserved, r.key)
		ls.mu.Unlock()
		try, stop := context.WithTimeout(context.WithoutCancel(ctx), tryTimeout)
		defer stop()
		_ = r.giveUp(try, last) // it expires in any case
	}, nil
}

// take takes the lease unless another one has not ended; holder is the member that has that.
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

// leaseOf returns the lease that is the value of an entry, an empty one for none.
func leaseOf(e *protocol.Entry) (l lease) {
	if e.Value == nil || json.Unmarshal(e.Value, &l) != nil {
		return lease{}
	}
	return l
}

// put makes an entry the lease of a replay that is so far.
func (r *reservation) put(e *protocol.Entry, now rest.Replay) (err error) {
	l := r.mine
	if now.Member = r.leases.member; !now.Started.IsZero() {
		l.Replay = &now
	}
	l.Cancel = now.Cancelled
	e.Value, err = json.Marshal(&l)
	return err
}

// errLeaseLost ends a replay whose dead letters another member may replay.
var errLeaseLost = errors.New("the replay was ended: it had no lease from the store of the cluster for half a minute, so that another member may replay the same dead letters; what was not settled is still there, so replay it again")

// renew keeps the lease until ctx ends, and ends the replay when it is asked to, and when the lease is lost.
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

// extend writes how far the replay is, and ends that if it is asked to. there is false when the lease is lost.
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

// giveUp says how the replay ended.
func (r *reservation) giveUp(ctx context.Context, last rest.Replay) error {
	return r.leases.swap(ctx, always, r.key, func(e *protocol.Entry) (time.Duration, bool, error) {
		if there := leaseOf(e); there.Stamp != r.mine.Stamp || there.Member == "" {
			return 0, true, nil
		}
		r.mine.Member = ""
		return endedFor, false, r.put(e, last)
	})
}

// status returns how far the replay of a pipeline is, or how it ended; ok is false when none is known.
func (ls *leases) status(ctx context.Context, pipeline string) (status rest.Replay, ok bool) {
	l, ok := ls.of(pipeline)
	if !ok || l.Member == "" && l.Replay == nil {
		return status, false
	}
	if l.Member != "" && time.Since(l.at) >= leaseTTL { // a store does not say that a key expired
		e, err := ls.read(ctx, leaseKey(pipeline))
		switch {
		case err != nil:
			status = l.status(pipeline)
			status.Message = fmt.Sprintf("the member %s has not said for %s how far it is, and the store of the cluster is out of reach", l.Member, time.Since(l.at).Round(time.Second))
			return status, true
		case e.Value == nil:
			return ls.expired(pipeline, l), true
		}
		ls.noted(e)
		l, _ = ls.of(pipeline)
	}
	status = l.status(pipeline)
	if l.Cancel && !l.answered() {
		status.Message = fmt.Sprintf("the member %s has not answered: the replay ends when it does, or with that member", l.Member)
	}
	return status, true
}

// of returns the lease of a pipeline as it was seen last.
func (ls *leases) of(pipeline string) (l seenLease, ok bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l, ok = ls.seen[leaseKey(pipeline)]
	return l, ok
}

// expired takes that a lease is gone and was not given up.
func (ls *leases) expired(pipeline string, l seenLease) rest.Replay {
	status := l.status(pipeline)
	status.Running, status.Error = false, fmt.Sprintf("it ended with the member %s, which did not say how; what was not settled is still there", l.Member)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if key := leaseKey(pipeline); ls.seen[key].revision == l.revision {
		l.Member, l.Replay = "", &status
		ls.seen[key] = l
	}
	return status
}

// cancel asks a replay to end, and waits for some seconds for the member that replays to answer.
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
		return leaseTTL, false, err // once, so that it does not keep the lease of a member that died
	})
	switch l, known := ls.of(pipeline); {
	case err != nil:
		return unavailable(pipeline, err)
	case !runs && known && l.Member != "": // it expired
		ls.expired(pipeline, l)
	}
	waiting, stop := context.WithTimeout(ctx, cancelWait)
	defer stop()
	for runs && waiting.Err() == nil {
		if l, _ := ls.of(pipeline); l.answered() {
			break
		}
		select {
		case <-waiting.Done():
		case <-time.After(retryPause / 2):
		}
	}
	return nil
}

// isLease reports whether a key is that of a lease.
func isLease(key string) bool { return strings.HasSuffix(key, leaseSuffix) }
