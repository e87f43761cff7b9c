package client

import (
	"context"
	"net/http"

	"github.com/conduit-agent/conduit/api/rest"
)

// Cluster returns the member that runs each pipeline, as known to the agent.
func (c *Client) Cluster(ctx context.Context) (rest.Cluster, error) {
	return get[rest.Cluster](ctx, c, "/v1/cluster")
}

// DrainMember makes the agent hand its pipelines to other members, and take no more.
func (c *Client) DrainMember(ctx context.Context, options ...Option) (rest.Cluster, error) {
	state, _, err := with[rest.Cluster](ctx, c, http.MethodPost, "/v1/cluster/drain", nil, options)
	return state, err
}

// ResumeMember lets the agent take pipelines again.
func (c *Client) ResumeMember(ctx context.Context) (rest.Cluster, error) {
	state, _, err := with[rest.Cluster](ctx, c, http.MethodPost, "/v1/cluster/resume", nil, nil)
	return state, err
}
