package client

import (
	"context"
	"net/http"

	"github.com/conduit-agent/conduit/api/rest"
)

// Cluster returns who runs which pipeline, as the agent knows it.
func (c *Client) Cluster(ctx context.Context) (rest.Cluster, error) {
	return get[rest.Cluster](ctx, c, "/v1/cluster")
}

// DrainMember has the agent give its pipelines to other members, and take no more.
func (c *Client) DrainMember(ctx context.Context, options ...Option) (rest.Cluster, error) {
	state, _, err := with[rest.Cluster](ctx, c, http.MethodPost, "/v1/cluster/drain", nil, options)
	return state, err
}

// ResumeMember has the agent take pipelines again.
func (c *Client) ResumeMember(ctx context.Context) (rest.Cluster, error) {
	state, _, err := with[rest.Cluster](ctx, c, http.MethodPost, "/v1/cluster/resume", nil, nil)
	return state, err
}
