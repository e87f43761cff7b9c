package standalone_test

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/standalone"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv2"
)

// A socket without a file works like one in a directory.
func TestSchemaServerWithoutADirectory(t *testing.T) {
	ctx := testContext(t)
	target, stop, err := standalone.ServeSchemas(&standalone.SchemaServer{Registry: &schema.Memory{}}, "pipe:src",
		"the token", "")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	client := connectorv2.NewSchemaServiceClient(conn)
	request := &connectorv2.GetSchemaRequest{Subject: "s", Version: 1}
	if _, err := client.GetSchema(withToken(ctx, "the token"), request); status.Convert(
		err).Message() != schema.ErrSubjectNotFound.Error() {
		t.Errorf("with the token: %v", err)
	}
	if _, err := client.GetSchema(ctx, request); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without the token: %v", err)
	}
}
