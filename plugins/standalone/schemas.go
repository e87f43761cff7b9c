package standalone

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/sandbox"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/wire"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv2"
	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// noSchemas is the target given to plugins when there is no schema service. Some do
// not start without one, and most never call it.
const noSchemas = "127.0.0.1:1"

// schemaSocket is the name of the socket in a connector's private directory. It is also the working directory of a
// strictly confined connector, which may connect to a name of this length only.
const schemaSocket = "schema.socket"

var _ [sandbox.SocketName]byte = [len(schemaSocket)]byte{}

// Limits of the schema service for one connector: the connections and their calls take as much memory as one message of
// its stream of records.
const (
	schemaConnections = 2
	schemaCalls       = 2 // at once on a connection; other calls wait at the connector
	maxSchemaRequest  = 4 << 20
	maxSchemaHeaders  = 16 << 10
	schemaWindow      = 64 << 10
	schemaHandshake   = 10 * time.Second
	schemaIdle        = time.Minute // until a connection without calls is closed
)

// SchemaServer serves a registry to connector processes until it ends. Each process has its own Unix socket in its
// private directory and its own token. Where the directory must not survive a kill of this process, the socket has no
// file (Linux) and accepts connections of this user only.
type SchemaServer struct {
	Registry schema.Registry
	Bounds   *schema.Bounds // limits for connectors; nil: none
}

// schemaService is the view that one connector has of the registry.
type schemaService struct {
	connectorv2.UnimplementedSchemaServiceServer

	registry    schema.Registry
	bounds      *schema.Bounds
	connectorID string
	token       []byte
	path        string // path of the socket
	server      *grpc.Server
}

// abstract is the prefix of the address of a socket without a file.
const abstract = "@"

// serve serves the connector in its private directory, or without a file if dir is empty, until stop. It returns nil
// when s is nil.
func (s *SchemaServer) serve(connectorID, token, dir string) (*schemaService, error) {
	if s == nil {
		return nil, nil
	}
	service := &schemaService{registry: s.Registry, bounds: s.Bounds, connectorID: connectorID, token: []byte(token),
		path: filepath.Join(dir, schemaSocket)}
	if dir == "" {
		service.path = abstract + "conduit-" + rand.Text()
	}
	if service.bounds == nil {
		service.bounds = &schema.Bounds{}
	}
	listener, err := net.Listen("unix", service.path)
	if err != nil {
		return nil, fmt.Errorf("cannot serve schemas to connector %s: %w", connectorID, err)
	}
	service.server = grpc.NewServer(grpc.InTapHandle(service.authenticate),
		grpc.MaxConcurrentStreams(schemaCalls), grpc.MaxRecvMsgSize(maxSchemaRequest),
		grpc.MaxHeaderListSize(maxSchemaHeaders),
		grpc.InitialWindowSize(schemaWindow), grpc.InitialConnWindowSize(schemaWindow),
		grpc.ConnectionTimeout(schemaHandshake),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: schemaIdle}))
	connectorv2.RegisterSchemaServiceServer(service.server, service)
	limited := netutil.LimitListener(ownListener{listener.(*net.UnixListener)}, schemaConnections)
	go func() { _ = service.server.Serve(limited) }() // fails when stop is called, which removes its socket
	return service, nil
}

// target returns the address of the schema service for the connector: a relative path if it works in its private
// directory.
func (s *schemaService) target(relative bool) string {
	switch {
	case s == nil:
		return noSchemas
	case relative:
		return "unix:" + schemaSocket
	case !s.hasFile():
		return "unix-abstract:" + strings.TrimPrefix(s.path, abstract)
	}
	return "unix:" + s.path
}

// hasFile reports whether the socket needs the private directory.
func (s *schemaService) hasFile() bool { return s != nil && !strings.HasPrefix(s.path, abstract) }

// stop ends all calls and removes the socket.
func (s *schemaService) stop() {
	if s != nil {
		s.server.Stop()
	}
}

// cache returns a cache of the registry for the host, nil if there is no registry.
func (s *SchemaServer) cache() *schema.Cache {
	if s == nil {
		return nil
	}
	return &schema.Cache{Registry: s.Registry}
}

// ownListener accepts connections of processes of this user only, the same restriction as in a private directory.
type ownListener struct{ *net.UnixListener }

// Accept waits for a connection of this user.
func (l ownListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if isOwn(conn) {
			return conn, nil
		}
		_ = conn.Close()
	}
}

// authenticate admits a call that has the connector's token, before it receives any part of the message.
func (s *schemaService) authenticate(ctx context.Context, call *tap.Info) (context.Context, error) {
	for _, token := range call.Header.Get(wire.TokenKey) {
		if subtle.ConstantTimeCompare([]byte(token), s.token) == 1 {
			return ctx, nil
		}
	}
	return nil, status.Error(codes.Unauthenticated, "invalid token")
}

// CreateSchema stores a schema.
func (s *schemaService) CreateSchema(ctx context.Context, req *connectorv2.CreateSchemaRequest) (
	*connectorv2.CreateSchemaResponse, error) {
	got, err := s.bounds.Create(ctx, s.registry, s.connectorID, req.GetSubject(), schema.Type(req.GetType()),
		string(req.GetBytes()))
	if err != nil {
		return nil, wire.SchemaStatus(err)
	}
	return &connectorv2.CreateSchemaResponse{Schema: wire.SchemaMessage(got)}, nil
}

// GetSchema returns a schema.
func (s *schemaService) GetSchema(ctx context.Context, req *connectorv2.GetSchemaRequest) (
	*connectorv2.GetSchemaResponse, error) {
	got, err := s.bounds.Get(ctx, s.registry, s.connectorID, req.GetSubject(), int(req.GetVersion()))
	if err != nil {
		return nil, wire.SchemaStatus(err)
	}
	return &connectorv2.GetSchemaResponse{Schema: wire.SchemaMessage(got)}, nil
}
