package telemetry

import "time"

// Cluster is what is counted of the cluster that an agent is a member of.
type Cluster struct {
	Members   int           // with a session, 0 while this agent has none
	Pipelines int           // that this agent owns
	Lag       time.Duration // for which a write of a claim has gone longest without a known outcome
	Notices   map[string]uint64
}

// cluster reports what the membership in a cluster counts.
func (c *Collector) cluster(gauge gauge, counter counter) {
	if c.Cluster == nil {
		return
	}
	s := c.Cluster()
	gauge(clusterMembersDesc, float64(s.Members))
	gauge(clusterPipelinesDesc, float64(s.Pipelines))
	gauge(clusterLagDesc, s.Lag.Seconds())
	for reason, n := range s.Notices {
		counter(clusterNoticesDesc, n, reason)
	}
}
