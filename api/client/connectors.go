package client

import (
	"context"
	"encoding/base64"
	"net/http"

	"github.com/conduit-agent/conduit/api/rest"
)

const (
	connectors = "connectors"
	processors = "processors"
)

// Connectors returns the connectors of a pipeline, or of all when it is empty.
func (c *Client) Connectors(ctx context.Context, pipelineID string) ([]rest.Connector, error) {
	return get[[]rest.Connector](ctx, c, "/v1/connectors", Query("pipelineId", pipelineID))
}

// Connector returns a connector and its ETag.
func (c *Client) Connector(ctx context.Context, id string) (rest.Connector, string, error) {
	return with[rest.Connector](ctx, c, http.MethodGet, at(connectors, id), nil, nil)
}

// CreateConnector creates a connector. Type, Plugin and PipelineID must be set.
func (c *Client) CreateConnector(
	ctx context.Context, connector rest.Connector, options ...Option,
) (rest.Connector, string, error) {
	return with[rest.Connector](ctx, c, http.MethodPost, "/v1/connectors",
		map[string]any{"id": connector.ID, "type": connector.Type,
			"plugin": connector.Plugin, "pipelineId": connector.PipelineID, "config": connector.Config}, options)
}

// UpdateConnector replaces the settings of a connector, and the plugin unless it is empty.
func (c *Client) UpdateConnector(
	ctx context.Context, id, plugin string, config rest.ConnectorConfig, options ...Option,
) (rest.Connector, string, error) {
	return with[rest.Connector](ctx, c, http.MethodPut, at(connectors, id),
		map[string]any{"plugin": plugin, "config": config}, options)
}

// DeleteConnector deletes a connector, and lets its plugin clean up.
func (c *Client) DeleteConnector(ctx context.Context, id string, options ...Option) error {
	_, err := c.call(ctx, http.MethodDelete, at(connectors, id), nil, nil, options)
	return err
}

// ValidateConnector returns the problems of a connector that does not exist yet.
func (c *Client) ValidateConnector(ctx context.Context, v rest.Validation) error {
	_, err := c.call(ctx, http.MethodPost, "/v1/connectors/validate", v, nil, nil)
	return err
}

// Plugins returns the connector plugins.
func (c *Client) Plugins(ctx context.Context) ([]rest.Plugin, error) {
	return get[[]rest.Plugin](ctx, c, "/v1/connectors/plugins")
}

// ProcessorPlugins returns the processor plugins.
func (c *Client) ProcessorPlugins(ctx context.Context) ([]rest.ProcessorPlugin, error) {
	return get[[]rest.ProcessorPlugin](ctx, c, "/v1/processors/plugins")
}

// Processors returns the processors of the parents, or all processors without parents.
func (c *Client) Processors(ctx context.Context, parentIDs ...string) ([]rest.Processor, error) {
	var options []Option
	for _, id := range parentIDs {
		options = append(options, Query("parentIds", id))
	}
	return get[[]rest.Processor](ctx, c, "/v1/processors", options...)
}

// Processor returns a processor and its ETag.
func (c *Client) Processor(ctx context.Context, id string) (rest.Processor, string, error) {
	return with[rest.Processor](ctx, c, http.MethodGet, at(processors, id), nil, nil)
}

// CreateProcessor appends a processor to its parent. Plugin and Parent must be set.
func (c *Client) CreateProcessor(
	ctx context.Context, p rest.Processor, options ...Option,
) (rest.Processor, string, error) {
	return with[rest.Processor](ctx, c, http.MethodPost, "/v1/processors",
		map[string]any{"id": p.ID, "plugin": p.Plugin,
			"condition": p.Condition, "parent": p.Parent, "config": p.Config}, options)
}

// UpdateProcessor replaces settings and condition of a processor, and the plugin unless
// it is empty.
func (c *Client) UpdateProcessor(
	ctx context.Context, id string, p rest.Processor, options ...Option,
) (rest.Processor, string, error) {
	return with[rest.Processor](ctx, c, http.MethodPut, at(processors, id), map[string]any{"plugin": p.Plugin,
		"condition": p.Condition, "config": p.Config}, options)
}

// DeleteProcessor deletes a processor.
func (c *Client) DeleteProcessor(ctx context.Context, id string, options ...Option) error {
	_, err := c.call(ctx, http.MethodDelete, at(processors, id), nil, nil, options)
	return err
}

// Position returns the position of a source, and its ETag.
func (c *Client) Position(ctx context.Context, connectorID string) (rest.Position, string, error) {
	return with[rest.Position](ctx, c, http.MethodGet, at(connectors, connectorID, "/position"), nil, nil)
}

// PositionMove returns the position of a source, the effect of moving it to another position, nil for none, and its
// ETag.
func (c *Client) PositionMove(ctx context.Context, connectorID string, to []byte) (rest.Position, string, error) {
	return with[rest.Position](ctx, c, http.MethodGet, at(connectors, connectorID, "/position"), nil,
		[]Option{Query("to", base64.StdEncoding.EncodeToString(to))})
}

// SetPosition moves the position of a source of a stopped pipeline.
func (c *Client) SetPosition(
	ctx context.Context, connectorID string, position []byte, options ...Option,
) (rest.Position, string, error) {
	return with[rest.Position](ctx, c, http.MethodPut, at(connectors, connectorID, "/position"),
		rest.SetPosition{Position: position}, options)
}

// ResetPosition removes the position of a source of a stopped pipeline, which then begins anew.
func (c *Client) ResetPosition(
	ctx context.Context, connectorID string, options ...Option,
) (rest.Position, string, error) {
	return with[rest.Position](ctx, c, http.MethodDelete, at(connectors, connectorID, "/position"), nil, options)
}
