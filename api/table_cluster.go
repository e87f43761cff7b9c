package api

import (
	"github.com/conduit-agent/conduit/api/guard"
)

// clusterRoutes returns the operations of the cluster that the agent is a member of.
func (s *Server) clusterRoutes() []route {
	c := &clusterHandlers{Member: s.Cluster}
	return []route{
		{operation{Method: get, Path: "/v1/cluster", ID: "getCluster", Tag: "cluster", Summary: "Get who runs which pipeline since when",
			Description: "As the agent that answers knows it. One that is no member of a cluster has the state alone.",
			Response:    exampleCluster, Errors: []int{503}}, c.Get, guard.Read, nil},
		{operation{Method: post, Path: "/v1/cluster/drain", ID: "drainMember", Tag: "cluster", Summary: "Give the pipelines of this agent to other members",
			Description: "Answers when it has none. It takes none until it is resumed or starts again.",
			Query:       waits, Headers: postHeaders, Response: exampleCluster, Errors: []int{400, 503, 504}}, c.Drain, guard.Admin, nil},
		{operation{Method: post, Path: "/v1/cluster/resume", ID: "resumeMember", Tag: "cluster", Summary: "Take pipelines again after a drain",
			Headers: postHeaders, Response: exampleCluster, Errors: []int{400, 503}}, c.Resume, guard.Admin, nil},
	}
}
