package mcp

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
)

// tool is a function of the API for a model.
type tool struct {
	name  string
	about string // short: every conversation of a model carries it
	admin bool   // needs the admin token, as the operation of the API does
	write bool   // changes pipelines
	// add adds the tool to a server and returns its argument names.
	add func(server *sdk.Server, t *tool, c caller) []string
}

// caller makes the requests of tools.
type caller struct {
	agent   func(context.Context) (*client.Client, error) // the client with the identity of the caller
	explain func(err error) error                         // adds a remedy to an error; nil: returns it as it is
}

// toolsFor returns the tools for a client.
func toolsFor(admin, write bool) (all []tool) {
	for _, t := range tools {
		if (admin || !t.admin) && (write || !t.write) {
			all = append(all, t)
		}
	}
	return all
}

// call returns a function that adds a tool to a server. The fields of In are the arguments of the tool. f returns a
// value for JSON, or a text.
func call[In any](f func(context.Context, *client.Client, In) (any, error)) func(*sdk.Server, *tool, caller) []string {
	return func(server *sdk.Server, t *tool, c caller) (arguments []string) {
		no := false
		described := &sdk.Tool{Name: t.name, Description: t.about, Annotations: &sdk.ToolAnnotations{
			ReadOnlyHint: !t.write, IdempotentHint: true, OpenWorldHint: &no}}
		sdk.AddTool(server, described, func(ctx context.Context, _ *sdk.CallToolRequest, in In) (
			result *sdk.CallToolResult, _ any, err error) {
			// The library calls tools in its own goroutines, in which a panic would end the agent.
			defer func() {
				if p := recover(); p != nil {
					err = fmt.Errorf("this is a fault of the agent: %v\n%s", p, debug.Stack())
				}
			}()
			agent, err := c.agent(ctx)
			if err != nil {
				return nil, nil, err
			}
			answer, err := f(ctx, agent, in)
			if err != nil {
				return nil, nil, c.describe(err)
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: textOf(answer)}}}, nil, nil
		})
		for _, f := range reflect.VisibleFields(reflect.TypeFor[In]()) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && !f.Anonymous {
				arguments = append(arguments, name)
			}
		}
		return arguments
	}
}

// advice maps the reason of an error to a remedy with tools, which replaces the request that the API suggests.
var advice = map[string]string{
	rest.ReasonPipelineNotFound:  "list_pipelines lists the pipelines",
	rest.ReasonConnectorNotFound: "pipeline_status lists the stages of a pipeline; an id has the form PIPELINE:CONNECTOR",
	rest.ReasonProcessorNotFound: "pipeline_status lists the stages of a pipeline",
	rest.ReasonPlanStale: "the pipeline or the text has changed since: call plan again, review its changes, and " +
		"apply with its hash",
	rest.ReasonOwnedByFile: "a file declares this pipeline, and only a change of the file changes it; plan_file shows " +
		"the effect of a new text",
	rest.ReasonUnauthenticated: "the MCP client must send the token of the API in the header Authorization: Bearer TOKEN",
	rest.ReasonForbidden:       "this needs the admin token of the API",
}

// describe returns err with its cause and a remedy for a model.
func (c caller) describe(err error) error {
	var refused *client.Error
	if !errors.As(err, &refused) {
		if c.explain != nil {
			err = c.explain(err)
		}
		return err
	}
	var b strings.Builder
	b.WriteString(refused.Message)
	for _, v := range refused.Violations {
		if !strings.Contains(refused.Message, v.Description) {
			fmt.Fprintf(&b, "\n%s: %s", v.Field, v.Description)
		}
	}
	remedy := advice[refused.Reason]
	if refused.Reason == rest.ReasonNotFound && refused.Metadata["configPath"] == "letter" {
		remedy = "it may have been replayed or dropped; list_dead_letters lists the dead letters"
	}
	if remedy == "" {
		remedy = refused.Metadata["suggestion"]
	}
	if remedy != "" {
		b.WriteString("\nRemedy: " + remedy)
	}
	for _, key := range []string{"file", "line", "configPath"} {
		if value := refused.Metadata[key]; value != "" {
			fmt.Fprintf(&b, "\n%s: %s", key, value)
		}
	}
	text, _ := cut(b.String(), 0)
	return errors.New(text)
}
