//go:build !minimal && !no_cluster

package agent

import (
	"context"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/agent/telemetry"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec/notify"
)

const (
	reportInterval = 3 * time.Second // between two looks at what the others are to know
	reportTimeout  = 2 * time.Second // bounds one
)

// report keeps the other members informed of the dead letters on the disk of this one, and of its lags, until ctx ends.
func (c *clustered) report(ctx context.Context, a *Agent) {
	fails := notify.Throttle{Fails: "cannot publish to the cluster how many dead letters are here, trying again", Recovered: "the cluster knows again how many dead letters are here"}
	ticker := time.NewTicker(reportInterval)
	defer ticker.Stop()
	for {
		try, cancel := context.WithTimeout(ctx, reportTimeout)
		err := c.publish(try, a)
		cancel()
		if ctx.Err() == nil {
			fails.Observe(c.log.With("component", "cluster"), err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (c *clustered) publish(ctx context.Context, a *Agent) error {
	totals, err := a.deadLetters.Totals(ctx)
	if err != nil {
		return err
	}
	r := cluster.Report{Member: c.member.Self.Agent, Address: a.address, DeadLetters: map[string]int64{}, Lags: cluster.Lags(ctx, c.member), At: time.Now()}
	for i := range totals {
		if totals[i].Count > 0 {
			r.DeadLetters[totals[i].PipelineID] = totals[i].Count
		}
	}
	return c.reports.Publish(ctx, r)
}

// Refused returns how many dead letters of a pipeline other members of the cluster have.
func (o *observed) Refused(id string) []rest.MemberDeadLetters {
	if o.cluster == nil {
		return nil
	}
	return o.cluster.refused(id, o.cluster.member.Self.Agent)
}

// refused returns how many dead letters of a pipeline the members have, but for one of them.
func (c *clustered) refused(id, but string) (all []rest.MemberDeadLetters) {
	for _, r := range c.reports.All() {
		if n := r.DeadLetters[id]; n > 0 && r.Member != but {
			all = append(all, rest.MemberDeadLetters{Member: r.Member, Address: r.Address, Count: n})
		}
	}
	return all
}

// lags returns for how many seconds positions have waited to be in claims, as those of the members that are not gone
// said, by member and id of the claim.
func (c *clustered) lags(members []protocol.MemberView) map[string]map[string]float64 {
	all := map[string]map[string]float64{}
	for _, r := range c.reports.All() {
		if slices.ContainsFunc(members, func(m protocol.MemberView) bool { return m.Agent == r.Member && !m.Gone }) {
			all[r.Member] = r.Lags
		}
	}
	return all
}

// reportedBy returns what a member said of itself: the address of its API, and how many dead letters it has.
func (c *clustered) reportedBy(member string) (address string, deadLetters int64) {
	for _, r := range c.reports.All() {
		if r.Member == member {
			address = r.Address
			for _, n := range r.DeadLetters {
				deadLetters += n
			}
		}
	}
	return address, deadLetters
}

// clusterStats returns what is counted of the cluster, for metrics.
func (c *clustered) clusterStats() telemetry.Cluster {
	ctx, cancel := context.WithTimeout(context.Background(), viewTimeout)
	defer cancel()
	s := c.member.Stats(ctx)
	notices := map[string]uint64{}
	for reason, n := range s.Notices {
		notices[string(reason)] = n
	}
	var claims []telemetry.Claim
	for _, claim := range cluster.Owned(c.member) {
		pipeline, number := protocol.InstanceOf(claim.Pipeline)
		claims = append(claims, telemetry.Claim{Pipeline: pipeline, Number: number, Since: claim.Since})
	}
	return telemetry.Cluster{Members: s.Members, Pipelines: s.Pipelines, Lag: s.Lag, Notices: notices, Claims: claims}
}
