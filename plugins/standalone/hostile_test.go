package standalone_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/standalone"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/commonv1"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv2"
)

// hostileSpecification selects the specification of a hostile plugin.
const hostileSpecification = "STANDALONE_TEST_SPECIFICATION"

func init() { roles["hostile"] = serveHostile }

// serveHostile serves a plugin that makes the host use as many resources as its setting "mode" specifies.
func serveHostile() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer()
	connectorv2.RegisterSpecifierPluginServer(server, hostileSpecifier{})
	connectorv2.RegisterSourcePluginServer(server, &hostileSource{})
	connectorv2.RegisterDestinationPluginServer(server, &hostileDestination{})
	fmt.Printf("1|2|tcp|%s|grpc|\n", listener.Addr())
	panic(server.Serve(listener))
}

type hostileSpecifier struct {
	connectorv2.UnimplementedSpecifierPluginServer
}

func (hostileSpecifier) Specify(context.Context, *connectorv2.Specifier_Specify_Request) (
	*connectorv2.Specifier_Specify_Response, error) {
	s := &connectorv2.Specification{Name: "hostile", Version: "v1.0.0", SourceParams: map[string]*commonv1.Parameter{}}
	switch os.Getenv(hostileSpecification) {
	case "parameters":
		for i := range 20_000 {
			s.SourceParams[strconv.Itoa(i)] = &commonv1.Parameter{}
		}
	case "text":
		s.Summary = strings.Repeat("x", 2<<20)
	}
	return &connectorv2.Specifier_Specify_Response{Specification: s}, nil
}

type hostileSource struct {
	connectorv2.UnimplementedSourcePluginServer
	mode string
}

func (s *hostileSource) Configure(_ context.Context, req *connectorv2.Source_Configure_Request) (
	*connectorv2.Source_Configure_Response, error) {
	s.mode = req.GetConfig()["mode"]
	return &connectorv2.Source_Configure_Response{}, nil
}

func (*hostileSource) Open(context.Context, *connectorv2.Source_Open_Request) (*connectorv2.Source_Open_Response,
	error) {
	return &connectorv2.Source_Open_Response{}, nil
}

func (s *hostileSource) Run(stream connectorv2.SourcePlugin_RunServer) error {
	switch s.mode {
	case "records":
		if err := stream.Send(manyRecords(30_000)); err != nil {
			return err
		}
	}
	r := &commonv1.Record{Position: []byte("1"), Metadata: map[string]string{}}
	switch s.mode {
	case "metadata":
		for i := range 20_000 {
			r.Metadata[strconv.Itoa(i)] = ""
		}
	case "values":
		r.Payload = &commonv1.Change{After: list(structpb.NewStructValue(&structpb.Struct{}), 100_000)}
	case "depth":
		v := structpb.NewNullValue()
		for range 3000 {
			v = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{v}})
		}
		r.Payload = &commonv1.Change{After: list(v, 1)}
	}
	if s.mode != "records" {
		if err := stream.Send(&connectorv2.Source_Run_Response{Records: []*commonv1.Record{r}}); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}

// manyRecords returns a message with n records of three bytes.
func manyRecords(n int) *connectorv2.Source_Run_Response {
	m := &connectorv2.Source_Run_Response{}
	m.ProtoReflect().SetUnknown(bytes.Repeat([]byte{0x0a, 0x03, 0x0a, 0x01, '1'}, n))
	return m
}

func list(v *structpb.Value, n int) *commonv1.Data {
	values := make([]*structpb.Value, n)
	for i := range values {
		values[i] = v
	}
	fields := map[string]*structpb.Value{"l": structpb.NewListValue(&structpb.ListValue{Values: values})}
	return &commonv1.Data{Data: &commonv1.Data_StructuredData{StructuredData: &structpb.Struct{Fields: fields}}}
}

type hostileDestination struct {
	connectorv2.UnimplementedDestinationPluginServer
}

func (*hostileDestination) Configure(context.Context, *connectorv2.Destination_Configure_Request) (
	*connectorv2.Destination_Configure_Response, error) {
	return &connectorv2.Destination_Configure_Response{}, nil
}

func (*hostileDestination) Open(context.Context, *connectorv2.Destination_Open_Request) (
	*connectorv2.Destination_Open_Response, error) {
	return &connectorv2.Destination_Open_Response{}, nil
}

// Run answers the first message with many more answers than the message has records.
func (*hostileDestination) Run(stream connectorv2.DestinationPlugin_RunServer) error {
	req, err := stream.Recv()
	if err != nil {
		return err
	}
	ack := protowire.AppendBytes([]byte{0x0a}, req.GetRecords()[0].GetPosition())
	m := &connectorv2.Destination_Run_Response{}
	m.ProtoReflect().SetUnknown(bytes.Repeat(protowire.AppendBytes([]byte{0x0a}, ack), 100_000))
	if err := stream.Send(m); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// A plugin that sends messages whose records take far more memory than bytes on the wire is broken, and the error gives
// the reason.
func TestHostileSources(t *testing.T) {
	for mode, want := range map[string]string{
		"metadata": "its metadata has 20000 entries, more than 10000",
		"values":   "bytes of memory when it is decoded, more than 4194304",
		"depth":    "nested deeper than 1000",
	} {
		t.Run(mode, func(t *testing.T) {
			ctx := testContext(t)
			c, _ := client(t, "hostile")
			standalone.SetEndTimeouts(c, 10*time.Millisecond)
			c.MaxReceive = 1 << 20
			s := openSource(ctx, t, c, map[string]string{"mode": mode})
			b, err := s.Read(ctx)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, %.300v", b, err)
			}
		})
	}
}

// The records of a huge message arrive in batches of a bounded number of records.
func TestManyRecordsInAMessage(t *testing.T) {
	ctx := testContext(t)
	c, _ := client(t, "hostile")
	standalone.SetEndTimeouts(c, 10*time.Millisecond)
	s := openSource(ctx, t, c, map[string]string{"mode": "records"})
	for n := 0; n < 30_000; {
		b, err := s.Read(ctx)
		if err != nil || b.Len() == 0 || b.Len() > 10_000 {
			t.Fatalf("after %d records: %d, %v", n, b.Len(), err)
		}
		n += b.Len()
	}
}

// More answers than records are an error, and the rest is not parsed.
func TestManyAnswers(t *testing.T) {
	ctx := testContext(t)
	c, _ := client(t, "hostile")
	standalone.SetEndTimeouts(c, 10*time.Millisecond)
	d, r := openDestination(ctx, t, c, nil)
	if err := d.Write(ctx, batch("a", "b")); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "it is reported", func() bool { _, _, broken := r.get(); return broken != nil })
	if _, _, broken := r.get(); !strings.Contains(broken.Error(), "acknowledged record") &&
		!strings.Contains(broken.Error(), "more records than it received") {
		t.Errorf("got %v", broken)
	}
}

func TestHostileSpecifications(t *testing.T) {
	for what, want := range map[string]string{"parameters": "20000 parameters, more than the maximum of 10000",
		"text": "bytes, more than the maximum of 1048576", "": ""} {
		c, _ := client(t, "hostile")
		c.Env = append(c.Env, hostileSpecification+"="+what)
		spec, err := c.Specify(testContext(t))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %.100v, %v, want %q", what, spec, err, want)
		}
	}
}
