package wire_test

import (
	"context"
	"net"
	"testing"

	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/wire"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connutilsv1"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/schemav1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

func TestSchemaServer(t *testing.T) {
	ctx := testContext(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &wire.SchemaServer{Registry: &schema.Memory{}, Listener: listener}
	serving, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- server.Run(serving) }()
	t.Cleanup(func() { stop(); <-done })

	target, token := wire.RegisterToken(server, "pipe:src")
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
	wire.RevokeToken(server, token)
	if _, err := client.GetSchema(with(token), &connutilsv1.GetSchemaRequest{Subject: "s", Version: 1}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("with a revoked token: got %v", err)
	}
}
