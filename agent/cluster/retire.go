package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/spec"
)

// cleanTimeout bounds one attempt to clean up after a connector.
const cleanTimeout = time.Minute

// retirements holds the clean-ups in progress, by pipeline. Only Run uses it.
type retirements map[string]context.CancelFunc

// begin starts to clean up after a deleted pipeline.
func (r retirements) begin(ctx context.Context, m *Member, c protocol.Start) {
	pipeline, number := protocol.InstanceOf(c.Pipeline)
	ctx, r[pipeline] = context.WithCancel(ctx)
	m.mu.Lock()
	m.owned[pipeline] = owned{number: number, epoch: c.Epoch, retire: true}
	m.mu.Unlock()
	m.working.Go(func() {
		err := m.Retire(ctx, pipeline)
		m.post(func() { r.ended(m, c, err) })
	})
}

// ended handles the end of a clean-up, with the error if it failed.
func (r retirements) ended(m *Member, c protocol.Start, err error) {
	pipeline, number := protocol.InstanceOf(c.Pipeline)
	r.cancel(pipeline)
	delete(r, pipeline)
	delete(m.stopping, pipeline)
	m.mu.Lock()
	delete(m.owned, pipeline)
	m.mu.Unlock()
	if err == nil {
		m.node.Retired(m.now(), c.Pipeline, c.Epoch)
		return
	}
	m.Log.Warn("cannot clean up after a deleted pipeline, a member of the cluster will try again", "component",
		"cluster", "pipeline_id", pipeline, "instance", number, "err", err)
	m.node.Stopped(m.now(), c.Pipeline, c.Epoch)
}

// cancel ends the clean-up of a pipeline, if there is one.
func (r retirements) cancel(pipeline string) {
	if cancel := r[pipeline]; cancel != nil {
		cancel()
	}
}

// Retire calls clean for each connector of a deleted pipeline that this agent owns, to release the connector's external
// resources. It returns when all have succeeded or ctx ends. After a failure it tries again after pause, which depends
// on the number of attempts.
func (s *Shared) Retire(
	ctx context.Context, pipeline string, clean func(context.Context, *spec.ConnectorState) error,
	pause func(id string, attempts int) time.Duration,
) error {
	for attempts := 1; ; attempts++ {
		err := s.retireOnce(ctx, pipeline, clean)
		if err == nil || ctx.Err() != nil {
			return err
		}
		s.Member.Log.Warn("cannot clean up after a deleted pipeline, trying again", "component", "cluster",
			"pipeline_id", pipeline, "err", err)
		select {
		case <-time.After(pause(pipeline, attempts)):
		case <-ctx.Done():
			return err
		}
	}
}

// retireOnce calls clean for each connector once. It returns the last error.
func (s *Shared) retireOnce(
	ctx context.Context, pipeline string, clean func(context.Context, *spec.ConnectorState) error,
) (failed error) {
	s.mu.Lock()
	connectors := maps.Clone(s.pipelines[pipeline].state.Connectors)
	s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(connectors)) {
		c := connectors[id]
		try, cancel := context.WithTimeout(ctx, cleanTimeout)
		err := clean(try, &c)
		cancel()
		if err == nil {
			err = s.DeleteConnector(ctx, id)
		}
		if err != nil {
			failed = fmt.Errorf("connector %s: %w", id, err)
		}
	}
	return failed
}
