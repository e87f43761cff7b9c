package standalone

import (
	"context"
	"crypto/rand"
	"net"
	"sync"

	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/wire"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connutilsv1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// noSchemas is the target given to plugins when there is no schema service. Some do
// not start without one, and most never call it.
const noSchemas = "127.0.0.1:1"

// SchemaServer serves a registry to connector processes. Each has a token of its own
// and is served until it ends.
type SchemaServer struct {
	connutilsv1.UnimplementedSchemaServiceServer

	Registry schema.Registry
	Bounds   *schema.Bounds // of what connectors may do with it; nil: none
	Listener net.Listener   // on loopback

	mu     sync.Mutex
	tokens map[string]string // guarded by mu: token → connector id
}

// Run serves until ctx ends.
func (s *SchemaServer) Run(ctx context.Context) error {
	if s.Bounds == nil {
		s.Bounds = &schema.Bounds{}
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(s.authenticate))
	connutilsv1.RegisterSchemaServiceServer(server, s)
	defer context.AfterFunc(ctx, server.Stop)()
	err := server.Serve(s.Listener)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// register returns where a connector finds its schemas, and the token to show there.
func (s *SchemaServer) register(connectorID string) (target, token string) {
	token = rand.Text()
	if s == nil {
		return noSchemas, token
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens == nil {
		s.tokens = make(map[string]string)
	}
	s.tokens[token] = connectorID
	return s.Listener.Addr().String(), token
}

// cache returns the registry for the host's own use, nil when there is none.
func (s *SchemaServer) cache() *schema.Cache {
	if s == nil {
		return nil
	}
	return &schema.Cache{Registry: s.Registry}
}

func (s *SchemaServer) revoke(token string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tokens, token)
}

// callerKey is where the context of a call has the id of the connector.
type callerKey struct{}

func (s *SchemaServer) authenticate(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	for _, token := range metadata.ValueFromIncomingContext(ctx, wire.TokenKey) {
		s.mu.Lock()
		connectorID, ok := s.tokens[token]
		s.mu.Unlock()
		if ok {
			return next(context.WithValue(ctx, callerKey{}, connectorID), req)
		}
	}
	return nil, status.Error(codes.Unauthenticated, "invalid token")
}

// CreateSchema stores a schema.
func (s *SchemaServer) CreateSchema(ctx context.Context, req *connutilsv1.CreateSchemaRequest) (*connutilsv1.CreateSchemaResponse, error) {
	got, err := s.Bounds.Create(ctx, s.Registry, ctx.Value(callerKey{}).(string), req.GetSubject(), schema.Type(req.GetType()), string(req.GetBytes()))
	if err != nil {
		return nil, wire.SchemaStatus(err)
	}
	return &connutilsv1.CreateSchemaResponse{Schema: wire.SchemaMessage(got)}, nil
}

// GetSchema returns a schema.
func (s *SchemaServer) GetSchema(ctx context.Context, req *connutilsv1.GetSchemaRequest) (*connutilsv1.GetSchemaResponse, error) {
	got, err := s.Bounds.Get(ctx, s.Registry, ctx.Value(callerKey{}).(string), req.GetSubject(), int(req.GetVersion()))
	if err != nil {
		return nil, wire.SchemaStatus(err)
	}
	return &connutilsv1.GetSchemaResponse{Schema: wire.SchemaMessage(got)}, nil
}
