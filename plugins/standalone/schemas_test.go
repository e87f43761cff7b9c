package standalone_test

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/standalone"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connutilsv1"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/schemav1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// serveSchemas serves a registry until stop is called, which returns what Run does, or the test ends.
func serveSchemas(t *testing.T, registry schema.Registry) (server *standalone.SchemaServer, stop func() error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server = &standalone.SchemaServer{Registry: registry, Listener: listener}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = stop() })
	return server, stop
}

func TestSchemaServer(t *testing.T) {
	ctx := testContext(t)
	server, _ := serveSchemas(t, &schema.Memory{})

	target, token := standalone.RegisterToken(server, "pipe:src")
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	client := connutilsv1.NewSchemaServiceClient(conn)
	const text = `{"type":"record","name":"record","fields":[]}`
	create := &connutilsv1.CreateSchemaRequest{Subject: "s", Type: schemav1.Schema_TYPE_AVRO, Bytes: []byte(text)}

	with := func(token string) context.Context {
		return metadata.AppendToOutgoingContext(ctx, "conduit-connector-token", token)
	}
	for _, wrong := range []context.Context{ctx, with("guess"), with("")} {
		if _, err := client.CreateSchema(wrong, create); status.Code(err) != codes.Unauthenticated {
			t.Errorf("without the token: got %v", err)
		}
	}
	created, err := client.CreateSchema(with(token), create)
	if err != nil || created.GetSchema().GetVersion() != 1 || created.GetSchema().GetId() == 0 {
		t.Fatalf("got %v, %v", created, err)
	}
	got, err := client.GetSchema(with(token), &connutilsv1.GetSchemaRequest{Subject: "s", Version: 1})
	if err != nil || string(got.GetSchema().GetBytes()) != text || got.GetSchema().GetType() != schemav1.Schema_TYPE_AVRO {
		t.Errorf("got %v, %v", got, err)
	}
	for _, tt := range []struct {
		subject string
		version int32
		want    string
	}{{"none", 1, "schema subject not found"}, {"s", 2, "schema version not found"}} {
		_, err := client.GetSchema(with(token), &connutilsv1.GetSchemaRequest{Subject: tt.subject, Version: tt.version})
		if status.Convert(err).Message() != tt.want {
			t.Errorf("%s %d: got %v, want %s", tt.subject, tt.version, err, tt.want)
		}
	}
	create.Bytes = []byte("{")
	if _, err := client.CreateSchema(with(token), create); status.Convert(err).Message() != "invalid schema" {
		t.Errorf("got %v", err)
	}
	standalone.RevokeToken(server, token)
	if _, err := client.GetSchema(with(token), &connutilsv1.GetSchemaRequest{Subject: "s", Version: 1}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("with a revoked token: got %v", err)
	}
}

func TestStructuredDataLeavesEncoded(t *testing.T) {
	ctx := testContext(t)
	registry := &schema.Memory{}
	server, _ := serveSchemas(t, registry)
	if _, err := registry.Create(ctx, "s", schema.TypeAvro, `{"type":"record","name":"record","fields":[{"name":"n","type":"long"}]}`); err != nil {
		t.Fatal(err)
	}
	with := numbered(1, true)
	with.Metadata.Set(record.KeyPayloadSchemaSubject, "s")
	with.Metadata.Set(record.KeyPayloadSchemaVersion, "1")
	b := record.NewBatch([]record.Record{with, numbered(2, true)})

	c, _ := client(t, "connector")
	c.Schemas = server
	path := filepath.Join(t.TempDir(), "out")
	d, _ := openDestination(ctx, t, c, map[string]string{"path": path})
	if err := d.Write(ctx, b); err != nil {
		t.Fatal(err)
	}
	if err := d.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if got, want := lines(t, path), "int64(1152921504606846977) float64(1.152921504606847e+18)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	records, err := b.Records()
	if err != nil || !records[0].Equal(with) {
		t.Errorf("the batch was changed: %v, %v", records, err)
	}
}
