package wire

import (
	"context"
	"io"
	"log/slog"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv2"
	hclog "github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

// Serve is the main of an executable connector: it serves c to the host that started the process and returns when the
// host is done. Started by hand it prints a description of itself and exits with status 1.
//
//	func main() { wire.Serve(connector) }
func Serve(c sdk.Connector) {
	log := newHostLogger(os.Stderr, os.Getenv(EnvLogLevel))
	schemas, err := DialSchemas(os.Getenv(EnvSchemaTarget), os.Getenv(EnvToken))
	if err != nil {
		log.Warn("connector runs without schemas", "err", err)
	}
	env := &sdk.Env{ConnectorID: os.Getenv(EnvConnectorID), PluginName: c.Name, Logger: log, Schemas: schemas}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: Handshake,
		VersionedPlugins: map[int]plugin.PluginSet{
			Version2: {"connector": &served{connector: c, env: env}},
		},
		GRPCServer: func(options []grpc.ServerOption) *grpc.Server { return newServer(announcedMax(), options...) },
		Logger:     hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: os.Stderr, JSONFormat: true}),
	})
}

// announcedMax returns the maximum size in bytes of a message from the host.
func announcedMax() int {
	size, err := strconv.Atoi(os.Getenv(EnvMaxMessage))
	if err != nil || size <= 0 {
		return DefaultMaxMessage
	}
	return size
}

// NewServer returns a server for an instance of c, for a host in the same process. It accepts messages of at most size
// bytes.
func NewServer(c sdk.Connector, env *sdk.Env, size int) *grpc.Server {
	server := newServer(size)
	register(server, c, env)
	return server
}

// newServer returns a gRPC server that accepts messages of at most size bytes.
func newServer(size int, options ...grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(options,
		grpc.ForceServerCodecV2(NewCodec()),
		grpc.ChainUnaryInterceptor(markCall), grpc.ChainStreamInterceptor(markStream),
		grpc.MaxRecvMsgSize(size), grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.InitialWindowSize(1<<20), grpc.InitialConnWindowSize(4<<20),
		grpc.ReadBufferSize(128<<10), grpc.WriteBufferSize(128<<10))...)
}

// served implements go-plugin's plugin interface for a connector.
type served struct {
	plugin.NetRPCUnsupportedPlugin
	connector sdk.Connector
	env       *sdk.Env
}

// GRPCServer registers the connector's services.
func (s *served) GRPCServer(_ *plugin.GRPCBroker, server *grpc.Server) error {
	register(server, s.connector, s.env)
	return nil
}

// GRPCClient is never called: this side only serves.
func (s *served) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, ErrUnimplemented
}

// register makes server serve one instance of c.
func register(server *grpc.Server, c sdk.Connector, env *sdk.Env) {
	c = sdk.Standard(c)
	source, destination := connectorv2.SourcePlugin_ServiceDesc, connectorv2.DestinationPlugin_ServiceDesc
	source.Streams = []grpc.StreamDesc{{StreamName: "Run", ServerStreams: true, ClientStreams: true,
		Handler: func(srv any, stream grpc.ServerStream) error { return srv.(*sourceServer).run(stream) }}}
	destination.Streams = []grpc.StreamDesc{{StreamName: "Run", ServerStreams: true, ClientStreams: true,
		Handler: func(srv any, stream grpc.ServerStream) error { return srv.(*destinationServer).run(stream) }}}
	connectorv2.RegisterSpecifierPluginServer(server, &specifierServer{connector: c})
	server.RegisterService(&source, newSourceServer(c, env))
	server.RegisterService(&destination, newDestinationServer(c, env))
}

type specifierServer struct {
	connectorv2.UnimplementedSpecifierPluginServer
	connector sdk.Connector
}

// Specify returns the specification of the connector.
func (s *specifierServer) Specify(
	context.Context, *connectorv2.Specifier_Specify_Request,
) (*connectorv2.Specifier_Specify_Response, error) {
	return &connectorv2.Specifier_Specify_Response{Specification: specificationOf(s.connector.Specification())}, nil
}

// newHostLogger returns a logger that writes lines in the format of the host.
func newHostLogger(w io.Writer, level string) *slog.Logger {
	least, ok := LogLevel(level)
	if !ok {
		least = slog.LevelInfo
	}
	if level == "disabled" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: least, ReplaceAttr: hostAttr}))
}

// hostAttr renames the attributes that slog adds to the names that hosts expect.
func hostAttr(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.MessageKey:
		a.Key = "@message"
	case slog.TimeKey:
		a.Key = "@timestamp"
	case slog.LevelKey:
		level, _ := a.Value.Any().(slog.Level)
		return slog.String("@level", levelName(level))
	}
	return a
}

// LogLevel returns the level for this name in the protocol of plugins and hosts.
func LogLevel(name string) (level slog.Level, known bool) {
	level, known = logLevels[strings.ToLower(name)]
	return level, known
}

var logLevels = map[string]slog.Level{
	"trace": slog.LevelDebug - 4,
	"debug": slog.LevelDebug,
	"info":  slog.LevelInfo,
	"warn":  slog.LevelWarn,
	"error": slog.LevelError,
	"fatal": slog.LevelError + 4,
	"panic": slog.LevelError + 4,
}

func levelName(l slog.Level) string {
	switch {
	case l < slog.LevelDebug:
		return "trace"
	case l < slog.LevelInfo:
		return "debug"
	case l < slog.LevelWarn:
		return "info"
	case l < slog.LevelError:
		return "warn"
	}
	return "error"
}

// cacheOf returns a cache of env's schemas, nil if there are none.
func cacheOf(env *sdk.Env) *schema.Cache {
	if env.Schemas == nil {
		return nil
	}
	return &schema.Cache{Registry: env.Schemas}
}
