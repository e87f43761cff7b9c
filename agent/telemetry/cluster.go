package telemetry

import (
	"strconv"
	"time"
)

// Cluster is what is counted of the cluster that an agent is a member of.
type Cluster struct {
	Members   int           // with a session, 0 while this agent has none
	Pipelines int           // that this agent owns
	Lag       time.Duration // for which a write of a claim has gone longest without a known outcome
	Notices   map[string]uint64
	Claims    []Claim // that this agent has
}

// Claim is that of a pipeline, or of one of its instances.
type Claim struct {
	Pipeline string
	Number   int       // of the instance, from 1 on
	Since    time.Time // by this agent's clock
}

// cluster reports what the membership in a cluster counts.
func (c *Collector) cluster(gauge gauge, counter counter) {
	if c.Cluster == nil {
		return
	}
	s := c.Cluster()
	gauge(clusterMembersDesc, float64(s.Members))
	gauge(clusterPipelinesDesc, float64(s.Pipelines))
	for _, claim := range s.Claims {
		gauge(clusterClaimDesc, float64(claim.Since.UnixMilli())/1000, claim.Pipeline, strconv.Itoa(claim.Number))
	}
	gauge(clusterLagDesc, s.Lag.Seconds())
	for reason, n := range s.Notices {
		counter(clusterNoticesDesc, n, reason)
	}
}
