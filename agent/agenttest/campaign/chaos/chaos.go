// Package chaos is a connector that misbehaves on command, for testing hosts. It implements the connector protocol
// without the SDK, so that it can break every rule of the protocol.
//
// The setting mode says how a source or a destination misbehaves; without it they behave correctly. The environment
// variable CONDUIT_CHAOS_START selects misbehaviour before there are settings.
package chaos

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc"

	"github.com/conduit-agent/conduit/plugins/wire/wirepb/commonv1"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv2"
)

// StartVariable is the environment variable that selects how the process starts: one of the names in Starts, or empty
// for a correct start.
const StartVariable = "CONDUIT_CHAOS_START"

// Main is the main of the connector.
func Main() {
	if start := starts[os.Getenv(StartVariable)]; start != nil {
		start()
	}
	listener, err := net.Listen("unix", filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "chaos"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot listen:", err)
		os.Exit(1)
	}
	server := grpc.NewServer()
	connectorv2.RegisterSpecifierPluginServer(server, specifier{})
	out := &output{Listener: listener}
	connectorv2.RegisterSourcePluginServer(server, newSource(out))
	connectorv2.RegisterDestinationPluginServer(server, &destination{})
	sayReady("unix", listener.Addr().String())
	if after := afterReady[os.Getenv(StartVariable)]; after != nil {
		go after()
	}
	if err := server.Serve(out); err != nil {
		fmt.Fprintln(os.Stderr, "cannot serve:", err)
		os.Exit(1)
	}
}

// sayReady prints the address for the host.
func sayReady(network, address string) { fmt.Printf("1|2|%s|%s|grpc|\n", network, address) }

type specifier struct {
	connectorv2.UnimplementedSpecifierPluginServer
}

// Specify describes the connector.
func (specifier) Specify(
	context.Context, *connectorv2.Specifier_Specify_Request,
) (*connectorv2.Specifier_Specify_Response, error) {
	mode := &commonv1.Parameter{Type: commonv1.Parameter_TYPE_STRING, Description: "How to misbehave."}
	count := &commonv1.Parameter{Type: commonv1.Parameter_TYPE_INT, Description: "Number of records.", Default: "10"}
	return &connectorv2.Specifier_Specify_Response{Specification: &connectorv2.Specification{
		Name: "chaos", Summary: "Misbehaves on command.", Version: "v1.0.0", Author: "conduit",
		SourceParams:      map[string]*commonv1.Parameter{"mode": mode, "count": count},
		DestinationParams: map[string]*commonv1.Parameter{"mode": mode},
	}}, nil
}
