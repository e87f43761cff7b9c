package standalone_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/standalone"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/commonv1"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const schemaText = `{"type":"record","name":"record","fields":[]}`

// schemaClient serves the registry to a connector and returns the client and the socket path of the connector.
func schemaClient(t *testing.T, registry schema.Registry, token string) (_ connectorv2.SchemaServiceClient,
	path string) {
	t.Helper()
	target, stop, err := standalone.ServeSchemas(&standalone.SchemaServer{Registry: registry}, "pipe:src", token,
		t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return connectorv2.NewSchemaServiceClient(conn), strings.TrimPrefix(target, "unix:")
}

func withToken(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "conduit-connector-token", token)
}

func TestSchemaServer(t *testing.T) {
	ctx := testContext(t)
	const token = "the token"
	client, _ := schemaClient(t, &schema.Memory{}, token)
	create := &connectorv2.CreateSchemaRequest{Subject: "s", Type: commonv1.Schema_TYPE_AVRO, Bytes: []byte(schemaText)}
	with := func(token string) context.Context { return withToken(ctx, token) }
	for _, wrong := range []context.Context{ctx, with("guess"), with("")} {
		if _, err := client.CreateSchema(wrong, create); status.Code(err) != codes.Unauthenticated {
			t.Errorf("without the token: got %v", err)
		}
	}
	created, err := client.CreateSchema(with(token), create)
	if err != nil || created.GetSchema().GetVersion() != 1 || created.GetSchema().GetId() == 0 {
		t.Fatalf("got %v, %v", created, err)
	}
	got, err := client.GetSchema(with(token), &connectorv2.GetSchemaRequest{Subject: "s", Version: 1})
	if err != nil || string(got.GetSchema().GetBytes()) != schemaText ||
		got.GetSchema().GetType() != commonv1.Schema_TYPE_AVRO {
		t.Errorf("got %v, %v", got, err)
	}
	for _, tt := range []struct {
		subject string
		version int32
		want    string
	}{{"none", 1, "schema subject not found"}, {"s", 2, "schema version not found"}} {
		_, err := client.GetSchema(with(token), &connectorv2.GetSchemaRequest{Subject: tt.subject, Version: tt.version})
		if status.Convert(err).Message() != tt.want {
			t.Errorf("%s %d: got %v, want %s", tt.subject, tt.version, err, tt.want)
		}
	}
	create.Bytes = []byte("{")
	if _, err := client.CreateSchema(with(token), create); status.Convert(err).Message() != "invalid schema" {
		t.Errorf("got %v", err)
	}
}

// A connector can use only a limited part of the host's memory through the schema service. Requests, headers, calls and
// connections beyond the limits are refused or wait.
func TestSchemaServerBounds(t *testing.T) {
	ctx := testContext(t)
	const token = "the token"
	client, path := schemaClient(t, &schema.Memory{}, token)
	large := &connectorv2.CreateSchemaRequest{Subject: "s", Bytes: make([]byte, 5<<20)}
	if _, err := client.CreateSchema(withToken(ctx, token), large); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a request of 5 MiB: got %v", err)
	}
	headers := metadata.AppendToOutgoingContext(withToken(ctx, token), "padding", strings.Repeat("x", 64<<10))
	if _, err := client.GetSchema(headers, &connectorv2.GetSchemaRequest{Subject: "s", Version: 1}); err == nil ||
		status.Convert(err).Message() == schema.ErrSubjectNotFound.Error() {
		t.Errorf("headers of 64 KiB: got %v", err)
	}
	// The client has one connection, so the server serves one more at once, and the third when that one has ended.
	dial := func() net.Conn {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	served := func(conn net.Conn) bool {
		_ = conn.SetReadDeadline(time.Now().Add(wait.Limit))
		_, err := conn.Read(make([]byte, 1)) // the settings that the server sends first
		return err == nil
	}
	second, third := dial(), dial()
	if !served(second) {
		t.Error("the second connection is not served")
	}
	wait.For(t, "the server waits for the end of a connection", func() bool {
		return wait.Goroutines("limitListener).acquire") == 1
	})
	if n := network.Unread(t, third); n > 0 {
		t.Errorf("the third connection is served: %d bytes", n)
	}
	_ = second.Close()
	if !served(third) {
		t.Error("the third connection is not served when the second has ended")
	}
}

// The service receives no part of a message from a client without the token: the call ends while the client is still
// sending.
func TestSchemaServerRefusesBeforeTheMessage(t *testing.T) {
	ctx := testContext(t)
	_, path := schemaClient(t, &schema.Memory{}, "the token")
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true},
		connectorv2.SchemaService_CreateSchema_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	// nothing is sent
	if err := stream.RecvMsg(&connectorv2.CreateSchemaResponse{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("got %v", err)
	}
}

func TestStructuredDataLeavesEncoded(t *testing.T) {
	ctx := testContext(t)
	registry := &schema.Memory{}
	if _, err := registry.Create(ctx, "s", schema.TypeAvro,
		`{"type":"record","name":"record","fields":[{"name":"n","type":"long"}]}`); err != nil {
		t.Fatal(err)
	}
	with := numbered(1, true)
	with.Metadata.Set(record.KeyPayloadSchemaSubject, "s")
	with.Metadata.Set(record.KeyPayloadSchemaVersion, "1")
	b := record.NewBatch([]record.Record{with, numbered(2, true)})

	c, _ := client(t, "connector")
	c.Schemas = &standalone.SchemaServer{Registry: registry}
	path := filepath.Join(t.TempDir(), "out")
	d, _ := openDestination(ctx, t, c, map[string]string{"path": path})
	if err := d.Write(ctx, b); err != nil {
		t.Fatal(err)
	}
	if err := d.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if got, want := lines(t, path), "int64(1152921504606846977) int64(1152921504606846978)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	records, err := b.Records()
	if err != nil || !records[0].Equal(with) {
		t.Errorf("the batch was changed: %v, %v", records, err)
	}
}
