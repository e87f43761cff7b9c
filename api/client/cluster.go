package client

import (
	"context"
	"net/http"

	"github.com/conduit-agent/conduit/spec"
)

// Cluster returns the member that runs each pipeline, as known to the agent.
func (c *Client) Cluster(ctx context.Context) (spec.Cluster, error) {
	return get[spec.Cluster](ctx, c, "/v1/cluster")
}

// DrainMember makes the agent hand its pipelines to other members, and take no more.
func (c *Client) DrainMember(ctx context.Context, options ...Option) (spec.Cluster, error) {
	state, _, err := with[spec.Cluster](ctx, c, http.MethodPost, "/v1/cluster/drain", nil, options)
	return state, err
}

// ResumeMember lets the agent take pipelines again.
func (c *Client) ResumeMember(ctx context.Context) (spec.Cluster, error) {
	state, _, err := with[spec.Cluster](ctx, c, http.MethodPost, "/v1/cluster/resume", nil, nil)
	return state, err
}
