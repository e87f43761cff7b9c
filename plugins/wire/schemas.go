package wire

import (
	"context"
	"errors"
	"fmt"

	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/commonv1"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// hostSchemas is the host's registry as seen by a plugin.
type hostSchemas struct {
	conn   *grpc.ClientConn
	client connectorv2.SchemaServiceClient
	token  string
}

// DialSchemas returns the registry at target, nil if there is none. It connects on first use.
func DialSchemas(target, token string) (schema.Registry, error) {
	if target == "" {
		return nil, nil
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("cannot use schema service %s: %w", target, err)
	}
	return &hostSchemas{conn: conn, client: connectorv2.NewSchemaServiceClient(conn), token: token}, nil
}

// Close closes the connection.
func (h *hostSchemas) Close() error { return h.conn.Close() }

// Create stores text as the newest version of subject.
func (h *hostSchemas) Create(ctx context.Context, subject string, typ schema.Type, text string) (schema.Schema, error) {
	resp, err := h.client.CreateSchema(h.withToken(ctx), &connectorv2.CreateSchemaRequest{
		Subject: subject, Type: commonv1.Schema_Type(typ), Bytes: []byte(text)})
	if err != nil {
		return schema.Schema{}, fmt.Errorf("cannot create the schema of %q: %w", subject, schemaError(err))
	}
	return schemaFrom(resp.GetSchema()), nil
}

// Get returns one version of a subject.
func (h *hostSchemas) Get(ctx context.Context, subject string, version int) (schema.Schema, error) {
	resp, err := h.client.GetSchema(h.withToken(ctx),
		&connectorv2.GetSchemaRequest{Subject: subject, Version: int32(version)})
	if err != nil {
		return schema.Schema{}, fmt.Errorf("cannot get schema %q version %d: %w", subject, version, schemaError(err))
	}
	return schemaFrom(resp.GetSchema()), nil
}

func (h *hostSchemas) withToken(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, TokenKey, h.token)
}

func schemaError(err error) error {
	err = PlainError(err)
	for _, known := range schemaErrors {
		if err.Error() == known.Error() {
			return known
		}
	}
	return err
}

// schemaErrors are the errors that clients distinguish, by their texts.
var schemaErrors = []error{schema.ErrSubjectNotFound, schema.ErrVersionNotFound, schema.ErrInvalidSchema,
	context.Canceled, context.DeadlineExceeded}

// SchemaStatus converts an error of a registry to the status that the service returns.
func SchemaStatus(err error) error {
	for _, known := range schemaErrors {
		if errors.Is(err, known) {
			return status.Error(codes.Unknown, known.Error())
		}
	}
	return err
}

// SchemaMessage returns the wire form of a schema.
func SchemaMessage(s schema.Schema) *commonv1.Schema {
	return &commonv1.Schema{Subject: s.Subject, Version: int32(s.Version), Id: int32(s.ID),
		Type: commonv1.Schema_Type(s.Type), Bytes: []byte(s.Text)}
}

func schemaFrom(s *commonv1.Schema) schema.Schema {
	return schema.Schema{Subject: s.GetSubject(), Version: int(s.GetVersion()), ID: int(s.GetId()),
		Type: schema.Type(s.GetType()), Text: string(s.GetBytes())}
}
