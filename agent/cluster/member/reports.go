package member

import (
	"context"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/agent/telemetry"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

const (
	reportInterval = 3 * time.Second // interval at which the report is updated
	reportTimeout  = 2 * time.Second // bounds one update
)

// report publishes the number of dead letters on this member's disk, and the lags, until ctx ends.
func (m *Member) report(ctx context.Context) {
	fails := notify.Throttle{Fails: "cannot publish the number of local dead letters to the cluster, trying again",
		Recovered: "the number of local dead letters can be published to the cluster again"}
	ticker := time.NewTicker(reportInterval)
	defer ticker.Stop()
	for {
		try, cancel := context.WithTimeout(ctx, reportTimeout)
		err := m.publish(try)
		cancel()
		if ctx.Err() == nil {
			fails.Observe(m.needs.Log.With("component", "cluster"), err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (m *Member) publish(ctx context.Context) error {
	totals, err := m.needs.DeadLetters.Totals(ctx)
	if err != nil {
		return err
	}
	r := cluster.Report{Member: m.member.Self.Agent, Address: m.needs.Address(), DeadLetters: map[string]int64{},
		Lags: cluster.Lags(ctx, m.member), At: time.Now()}
	for i := range totals {
		if totals[i].Count > 0 {
			r.DeadLetters[totals[i].PipelineID] = totals[i].Count
		}
	}
	return m.reports.Publish(ctx, r)
}

// onDisks returns the numbers of dead letters of a pipeline on the disks of all members except but.
func onDisks(reports []cluster.Report, id, but string) (all []spec.MemberDeadLetters) {
	for _, r := range reports {
		if n := r.DeadLetters[id]; n > 0 && r.Member != but {
			all = append(all, spec.MemberDeadLetters{Member: r.Member, Address: r.Address, Count: n})
		}
	}
	return all
}

// lagsOf returns the seconds for which positions have waited to be saved in claims, by member and claim id, as reported
// by the members that are present.
func lagsOf(reports []cluster.Report, members []protocol.MemberView) map[string]map[string]float64 {
	all := map[string]map[string]float64{}
	for _, r := range reports {
		if slices.ContainsFunc(members, func(m protocol.MemberView) bool { return m.Agent == r.Member && !m.Gone }) {
			all[r.Member] = r.Lags
		}
	}
	return all
}

// reportedBy returns the address of a member's API and its number of dead letters, as reported.
func reportedBy(reports []cluster.Report, member string) (address string, deadLetters int64) {
	for _, r := range reports {
		if r.Member == member {
			address = r.Address
			for _, n := range r.DeadLetters {
				deadLetters += n
			}
		}
	}
	return address, deadLetters
}

// stats returns the counters of the cluster, for metrics.
func (m *Member) stats() telemetry.Cluster {
	ctx, cancel := context.WithTimeout(context.Background(), viewTimeout)
	defer cancel()
	s := m.member.Stats(ctx)
	notices := map[string]uint64{}
	for reason, n := range s.Notices {
		notices[string(reason)] = n
	}
	var claims []telemetry.Claim
	for _, claim := range cluster.Owned(m.member) {
		pipeline, number := protocol.InstanceOf(claim.Pipeline)
		claims = append(claims, telemetry.Claim{Pipeline: pipeline, Number: number, Since: claim.Since})
	}
	return telemetry.Cluster{Members: s.Members, Pipelines: s.Pipelines, Lag: s.Lag, Notices: notices, Claims: claims}
}
