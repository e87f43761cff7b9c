package wire_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/wire"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/commonv1"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv2"
	hclog "github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

// serveVariable makes this test binary an executable connector, by its name.
const serveVariable = "WIRE_TEST_SERVE"

func TestMain(m *testing.M) {
	switch name := os.Getenv(serveVariable); name {
	case "":
		os.Exit(m.Run())
	case "bare":
		wire.Serve(sdk.Connector{Name: "bare", Version: "v1.0.0",
			NewSource:      func() sdk.Source { return &bareSource{} },
			NewDestination: func() sdk.Destination { return &fullDestination{} },
		})
	default:
		wire.Serve(targets()[name].Connector)
	}
}

// bareSource returns records that have only a position.
type bareSource struct {
	sdk.SourceBase
	at int
}

func (*bareSource) Parameters() sdk.Parameters                         { return nil }
func (*bareSource) Configure(context.Context, map[string]string) error { return nil }
func (*bareSource) Open(context.Context, record.Position) error        { return nil }
func (*bareSource) Ack(context.Context, []record.Position) error       { return nil }

func (s *bareSource) Read(ctx context.Context) ([]record.Record, error) {
	if s.at == 3 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s.at++
	return []record.Record{{Position: record.Position(strconv.Itoa(s.at)), Operation: record.OperationCreate}}, nil
}

// fullDestination writes one record and no more.
type fullDestination struct {
	sdk.DestinationBase
	written int
}

func (*fullDestination) Parameters() sdk.Parameters                         { return nil }
func (*fullDestination) Configure(context.Context, map[string]string) error { return nil }
func (*fullDestination) Open(context.Context) error                         { return nil }

func (d *fullDestination) Write(ctx context.Context, records []record.Record) (int, error) {
	if d.written++; d.written > 1 {
		return 0, sdk.Unavailable(errors.New("disk full"))
	}
	return len(records), nil
}

// realHost starts this binary like the real host: with go-plugin and the variables that it sets, and without a deadline
// for any call.
func realHost(t *testing.T) *grpc.ClientConn {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = []string{serveVariable + "=bare", wire.EnvSchemaTarget + "=127.0.0.1:1", wire.EnvToken + "=token",
		wire.EnvConnectorID + "=pipe:conn", wire.EnvLogLevel + "=info", "GORACE=atexit_sleep_ms=0"}
	client := plugin.NewClient(&plugin.ClientConfig{Cmd: cmd, HandshakeConfig: wire.Handshake,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, Logger: hclog.NewNullLogger(),
		VersionedPlugins: map[int]plugin.PluginSet{1: {}, 2: {}}})
	t.Cleanup(func() {
		client.Kill()
		if !cmd.ProcessState.Success() { // go-plugin kills a process that does not exit on request
			t.Errorf("the process did not exit when asked: %v", cmd.ProcessState)
		}
	})
	protocol, err := client.Client()
	if err != nil {
		t.Fatal(err)
	}
	return protocol.(*plugin.GRPCClient).Conn
}

// The real host loses the metadata that it adds to a record without metadata, which makes some connectors fail.
func TestRecordsLeaveWithMetadata(t *testing.T) {
	ctx := t.Context()
	source := connectorv2.NewSourcePluginClient(realHost(t))
	_, errConfigure := source.Configure(ctx,
		&connectorv2.Source_Configure_Request{Config: map[string]string{"sdk.schema.extract.key.enabled": "false",
			"sdk.schema.extract.payload.enabled": "false"}})
	_, errOpen := source.Open(ctx, &connectorv2.Source_Open_Request{})
	running, cancel := context.WithCancel(ctx)
	stream, errRun := source.Run(running)
	if err := errors.Join(errConfigure, errOpen, errRun); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		resp, err := stream.Recv()
		if err != nil || len(resp.GetRecords()) != 1 {
			t.Fatalf("record %d: %v, %v", n, resp, err)
		}
		if r := resp.GetRecords()[0]; r.GetMetadata()[record.KeyReadAt] == "" {
			t.Errorf("record %s leaves with metadata %v", r.GetPosition(), r.GetMetadata())
		}
		if err := stream.Send(&connectorv2.Source_Run_Request{
			AckPositions: [][]byte{resp.GetRecords()[0].GetPosition()}}); err != nil {
			t.Fatal(err)
		}
	}
	resp, err := source.Stop(ctx, &connectorv2.Source_Stop_Request{})
	if err != nil || string(resp.GetLastPosition()) != "3" {
		t.Errorf("stopped at %q, %v", resp.GetLastPosition(), err)
	}
	cancel() // the real host never closes its side in order
	if _, err := source.Teardown(ctx, &connectorv2.Source_Teardown_Request{}); err != nil {
		t.Error(err)
	}
}

// The real host stops a destination that has failed, and waits for the answer without a
// limit.
func TestStopOfADestinationThatHasFailed(t *testing.T) {
	ctx := t.Context()
	destination := connectorv2.NewDestinationPluginClient(realHost(t))
	_, errConfigure := destination.Configure(ctx, &connectorv2.Destination_Configure_Request{})
	_, errOpen := destination.Open(ctx, &connectorv2.Destination_Open_Request{})
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, errRun := destination.Run(running)
	if err := errors.Join(errConfigure, errOpen, errRun); err != nil {
		t.Fatal(err)
	}
	var sendErr error
	for _, position := range []string{"1", "2", "3"} {
		sendErr = stream.Send(&connectorv2.Destination_Run_Request{
			Records: []*commonv1.Record{{Position: []byte(position)}}})
		if sendErr != nil {
			break // it has failed already
		}
	}
	answers := 0
	var err error
	for err == nil {
		var resp *connectorv2.Destination_Run_Response
		resp, err = stream.Recv()
		answers += len(resp.GetAcks())
	}
	if answers != 1 || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("%d answers, then %v", answers, err)
	}
	// If the destination has not failed, Stop waits for at most a minute.
	if _, err = destination.Stop(ctx, &connectorv2.Destination_Stop_Request{LastPosition: []byte("3")}); err == nil ||
		!strings.Contains(err.Error(), "disk full") {
		t.Errorf("Stop returned %v", err)
	}
	if _, err := destination.Teardown(ctx, &connectorv2.Destination_Teardown_Request{}); err != nil {
		t.Error(err)
	}
}
