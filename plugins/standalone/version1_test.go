package standalone_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/commonv1"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/conduit-agent/conduit/plugins/record"
)

// serveVersion1 serves a plugin of the first protocol version over TCP, without the services of go-plugin. The plugin
// ends its streams at Stop.
func serveVersion1() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer()
	connectorv1.RegisterSpecifierPluginServer(server, specifier1{})
	connectorv1.RegisterSourcePluginServer(server, &source1{stop: make(chan struct{})})
	connectorv1.RegisterDestinationPluginServer(server, &destination1{})
	fmt.Printf("1|1|tcp|localhost:%d|grpc\n", listener.Addr().(*net.TCPAddr).Port)
	panic(server.Serve(listener))
}

type specifier1 struct {
	connectorv1.UnimplementedSpecifierPluginServer
}

func (specifier1) Specify(
	context.Context, *connectorv1.Specifier_Specify_Request,
) (*connectorv1.Specifier_Specify_Response, error) {
	return &connectorv1.Specifier_Specify_Response{
		Name: "test", Summary: "counts", Description: "For tests.", Version: "v1.2.3", Author: "us",
		SourceParams: map[string]*connectorv1.Specifier_Parameter{"count": {Default: "10", Description: "how many",
			Type: connectorv1.Specifier_Parameter_TYPE_INT,
			Validations: []*connectorv1.Specifier_Parameter_Validation{
				{Type: connectorv1.Specifier_Parameter_Validation_TYPE_GREATER_THAN, Value: "-1"}}}},
		DestinationParams: map[string]*connectorv1.Specifier_Parameter{"path": {Required: true,
			Type: connectorv1.Specifier_Parameter_TYPE_FILE}},
	}, nil
}

type source1 struct {
	connectorv1.UnimplementedSourcePluginServer
	s    countSource
	sent string
	stop chan struct{}
}

func (s *source1) Configure(
	ctx context.Context, req *connectorv1.Source_Configure_Request,
) (*connectorv1.Source_Configure_Response, error) {
	return &connectorv1.Source_Configure_Response{}, s.s.Configure(ctx, req.GetConfig())
}

func (s *source1) Start(
	ctx context.Context, req *connectorv1.Source_Start_Request,
) (*connectorv1.Source_Start_Response, error) {
	return &connectorv1.Source_Start_Response{}, s.s.Open(ctx, req.GetPosition())
}

func (s *source1) Run(stream connectorv1.SourcePlugin_RunServer) error {
	acks := make(chan error, 1)
	go func() {
		for {
			req, err := stream.Recv()
			if err == nil {
				err = s.s.Ack(stream.Context(), []record.Position{req.GetAckPosition()})
			}
			if err != nil {
				acks <- err
				return
			}
		}
	}()
	for s.s.at++; s.s.at <= s.s.count; s.s.at++ {
		n := strconv.Itoa(s.s.at)
		rec := &commonv1.Record{Position: []byte(n), Operation: commonv1.Operation_OPERATION_CREATE}
		if err := stream.Send(&connectorv1.Source_Run_Response{Record: rec}); err != nil {
			return err
		}
		s.sent = n
	}
	<-s.stop
	if err := <-acks; !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func (s *source1) Stop(context.Context, *connectorv1.Source_Stop_Request) (*connectorv1.Source_Stop_Response, error) {
	close(s.stop)
	return &connectorv1.Source_Stop_Response{LastPosition: []byte(strconv.Itoa(s.s.count))}, nil
}

func (s *source1) Teardown(
	context.Context, *connectorv1.Source_Teardown_Request,
) (*connectorv1.Source_Teardown_Response, error) {
	return &connectorv1.Source_Teardown_Response{}, nil
}

type destination1 struct {
	connectorv1.UnimplementedDestinationPluginServer
	d listDestination
}

func (d *destination1) Configure(
	ctx context.Context, req *connectorv1.Destination_Configure_Request,
) (*connectorv1.Destination_Configure_Response, error) {
	return &connectorv1.Destination_Configure_Response{}, d.d.Configure(ctx, req.GetConfig())
}

func (d *destination1) Start(
	ctx context.Context, _ *connectorv1.Destination_Start_Request,
) (*connectorv1.Destination_Start_Response, error) {
	return &connectorv1.Destination_Start_Response{}, d.d.Open(ctx)
}

func (d *destination1) Run(stream connectorv1.DestinationPlugin_RunServer) error {
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		b, err := proto.Marshal(req.GetRecord())
		if err != nil {
			return err
		}
		r, err := record.ParseWire(b)
		if err != nil {
			return err
		}
		resp := &connectorv1.Destination_Run_Response{AckPosition: r.Position}
		if _, err := d.d.Write(stream.Context(), []record.Record{r}); err != nil {
			resp.Error = err.Error()
		}
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
}

func (d *destination1) Stop(
	context.Context, *connectorv1.Destination_Stop_Request,
) (*connectorv1.Destination_Stop_Response, error) {
	return &connectorv1.Destination_Stop_Response{}, nil
}

func (d *destination1) Teardown(
	context.Context, *connectorv1.Destination_Teardown_Request,
) (*connectorv1.Destination_Teardown_Response, error) {
	return &connectorv1.Destination_Teardown_Response{}, nil
}

var _ sdk.Destination = (*listDestination)(nil)
