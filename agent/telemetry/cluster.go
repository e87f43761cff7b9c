package telemetry

import (
	"strconv"
	"time"
)

// Cluster holds the counters of the cluster in which the agent is a member.
type Cluster struct {
	Members   int           // members with a session, 0 while this agent has none
	Pipelines int           // pipelines that this agent owns
	Lag       time.Duration // longest time without a known outcome of the write of a claim
	Notices   map[string]uint64
	Claims    []Claim // claims of this agent
}

// Claim is the claim on a pipeline, or on one instance of a pipeline.
type Claim struct {
	Pipeline string
	Number   int       // number of the instance, from 1
	Since    time.Time // by the clock of this agent
}

// cluster reports the counters of the membership in a cluster.
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
