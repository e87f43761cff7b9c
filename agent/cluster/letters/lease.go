package letters

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/api/rest"
)

// A replay has a lease, so that two members do not replay the same dead letters.
const (
	leaseTTL   = 30 * time.Second
	leaseRenew = 5 * time.Second
	leaseEnd   = time.Second // that a lease which was given up is kept
)

// lease is the value of the key of a lease.
type lease struct {
	Format int    `json:"format"`
	Member string `json:"member"` // "" when it was given up
	Stamp  string `json:"stamp"`
}

// Begin implements replay.DeadLetters.
func (s *Share) Begin(ctx context.Context, pipeline string) (end func(), err error) {
	if len(s.claims(pipeline)) == 0 {
		return s.Local.Begin(ctx, pipeline)
	}
	mine := lease{Format: format, Member: s.Member, Stamp: rand.Text()}
	try, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	holder, err := s.hold(try, pipeline, mine, leaseTTL)
	switch {
	case err != nil:
		return nil, unavailable(pipeline, err)
	case holder != "":
		return nil, rest.Errorf(rest.Aborted, rest.ReasonPipelineRunning, "dead letters of pipeline %q are being replayed on the member %s of the cluster", pipeline, holder).
			With("pipelineId", pipeline).Suggest("wait until that has ended, or end it there; half a minute after that member died they can be replayed")
	}
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	go s.renew(renewing, pipeline, mine)
	return func() {
		stop()
		try, cancel := context.WithTimeout(context.WithoutCancel(ctx), tryTimeout)
		defer cancel()
		mine.Member = ""
		_, _ = s.hold(try, pipeline, mine, leaseEnd) // it expires in any case
	}, nil
}

// renew keeps a lease until ctx ends. When that fails for too long another member may replay the same dead letters.
func (s *Share) renew(ctx context.Context, pipeline string, mine lease) {
	tick := time.NewTicker(leaseRenew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_, _ = s.hold(ctx, pipeline, mine, leaseTTL)
		}
	}
}

// hold writes a lease unless another one has not ended; holder is the member that has that.
func (s *Share) hold(ctx context.Context, pipeline string, mine lease, ttl time.Duration) (holder string, err error) {
	err = s.swap(ctx, always, protocol.LettersKey(pipeline)+".replay", func(e *protocol.Entry) (time.Duration, bool, error) {
		var there lease
		if e.Value != nil && json.Unmarshal(e.Value, &there) == nil && there.Stamp != mine.Stamp && there.Member != "" {
			holder = there.Member
			return 0, true, nil
		}
		e.Value, err = json.Marshal(&mine)
		return ttl, false, err
	})
	return holder, err
}
