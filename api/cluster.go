package api

import (
	"context"
	"net/http"

	"github.com/conduit-agent/conduit/api/guard"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// Member is this agent as a member of a cluster.
type Member interface {
	// Cluster returns this agent's view of the cluster.
	Cluster(ctx context.Context) (spec.Cluster, error)
	// Drain hands this agent's pipelines to other members, and makes it take no more. It returns when the agent has
	// none, or with an error when ctx ends before.
	Drain(ctx context.Context) error
	// Resume lets the agent take pipelines again.
	Resume(ctx context.Context) error
}

// clusterRoutes returns the operations of the cluster that the agent is a member of.
func (s *Server) clusterRoutes() []route {
	c := &clusterHandlers{Member: s.Cluster}
	return []route{
		{operation{Method: get, Path: "/v1/cluster", ID: "getCluster", Tag: "cluster",
			Summary:     "Get the pipelines and members of the cluster",
			Description: "The cluster as this agent sees it. An agent outside a cluster returns the state alone.",
			Response:    exampleCluster, Errors: []int{503}}, c.Get, guard.Read, nil},
		{operation{Method: post, Path: "/v1/cluster/drain", ID: "drainMember", Tag: "cluster",
			Summary:     "Move the pipelines of this agent to other members",
			Description: "Returns when the agent has no pipelines left. It accepts none until a resume or a restart.",
			Query:       waits, Headers: postHeaders, Response: exampleCluster, Errors: []int{400, 503, 504}}, c.Drain,
			guard.Admin, nil},
		{operation{Method: post, Path: "/v1/cluster/resume", ID: "resumeMember", Tag: "cluster",
			Summary: "Accept pipelines again after a drain",
			Headers: postHeaders, Response: exampleCluster, Errors: []int{400, 503}}, c.Resume, guard.Admin, nil},
	}
}

// clusterHandlers performs the operations on a cluster.
type clusterHandlers struct {
	Member Member // nil for an agent outside a cluster
}

// Get answers with the member that runs each pipeline.
func (c *clusterHandlers) Get(_ http.ResponseWriter, r *http.Request) (any, error) {
	if c.Member == nil {
		return spec.Cluster{State: spec.MembershipAlone, Members: []spec.ClusterMember{},
			Pipelines: []spec.ClusterPipeline{}}, nil
	}
	return c.Member.Cluster(r.Context())
}

// Drain hands this agent's pipelines to other members and answers when the agent has none. With a wait of 0 it answers
// at once.
func (c *clusterHandlers) Drain(w http.ResponseWriter, r *http.Request) (any, error) {
	limit, err := waitTime(r)
	if err != nil {
		return nil, err
	}
	if c.Member == nil {
		return nil, alone()
	}
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	if err := c.Member.Drain(ctx); err != nil && limit != 0 {
		return nil, rest.Errorf(rest.DeadlineExceeded, rest.ReasonTimeout,
			"the drain of this member is not complete").
			Suggest("the drain continues; query the status of the cluster, or set a longer ?wait=")
	}
	return c.Get(w, r)
}

// Resume lets the agent take pipelines again.
func (c *clusterHandlers) Resume(w http.ResponseWriter, r *http.Request) (any, error) {
	if c.Member == nil {
		return nil, alone()
	}
	if err := c.Member.Resume(r.Context()); err != nil {
		return nil, rest.Errorf(rest.Unavailable, rest.ReasonTimeout, "%v", err)
	}
	return c.Get(w, r)
}

func alone() error {
	return rest.Errorf(rest.FailedPrecondition, rest.ReasonAlone, "this agent is not a member of a cluster").
		Suggest("set cluster.name and cluster.nats.url or cluster.postgres.url, and restart the agent")
}
