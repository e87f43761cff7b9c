package standalone

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sandbox"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/wire"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Client runs connectors of one plugin executable, each in its own process.
type Client struct {
	Path string // path of the executable
	// connector served from this process instead of an executable, otherwise treated alike; nil: none
	Connector *sdk.Connector
	Name      string       // plugin name for the log; empty: base name of the executable
	Env       []string     // environment of the plugin, as NAME=value; nil: the agent's
	Log       *slog.Logger // receives their stdout and stderr; nil: discarded
	LogLevel  string       // log level of the plugin: trace, debug, info, warn, error; empty: info
	// restrictions of the processes, which may also use their private directory; nil: the rights of this process
	Sandbox *sandbox.Policy
	Schemas *SchemaServer // schema service of the plugin; nil: none
	// directory in which each process gets a private directory with its socket, created if necessary; empty:
	// os.TempDir, where the private directory is removed as soon as there is a connection unless the process is
	// confined
	TempDir    string
	MaxMessage int // maximum size of a message to them, in bytes; 0: 4 MiB
	MaxReceive int // maximum size of a message from them, in bytes; 0: 16 MiB

	StartTimeout time.Duration // until a process is ready; 0: a minute
	CallTimeout  time.Duration // for Configure, Open and lifecycle calls; 0: a minute
	StopTimeout  time.Duration // for a source to report its last position, and for a destination to flush; 0: 65 s

	ends *endTimeouts // nil: defaultEndTimeouts; tests set it
}

// Specify starts the plugin, queries its specification, and ends it.
func (c *Client) Specify(ctx context.Context) (sdk.Specification, error) {
	s, err := c.specify(ctx)
	s.end()
	return s.spec, err
}

// specified is the specification of a plugin, and the process that gave it.
type specified struct {
	spec    sdk.Specification
	answer  wire.Frame
	version int    // of the protocol
	end     func() // ends the process, which takes a while
}

// specify is like Specify, but leaves it to the caller to end the process, also after an error.
func (c *Client) specify(ctx context.Context) (s specified, err error) {
	s.end = func() {}
	conn, err := c.connect(ctx, "load-specifications")
	if err != nil {
		return s, err
	}
	s.version, s.end = conn.p.version, conn.end
	ctx, cancel := context.WithTimeout(ctx, c.callTimeout())
	defer cancel()
	method := fmt.Sprintf("/connector.v%d.SpecifierPlugin/Specify", conn.p.version)
	err = conn.p.explain(conn.p.conn.Invoke(ctx, method, wire.Frame{}, &s.answer))
	if err == nil {
		s.spec, err = wire.ParseSpecification(s.answer, s.version)
	}
	if err == nil && s.spec.Name == "" {
		err = errors.New("the specification has no name")
	}
	if err != nil {
		s.spec = sdk.Specification{}
		return s, fmt.Errorf("cannot get the specification of plugin %s: %w", c.name(), err)
	}
	return s, nil
}

// Source starts a process for the source with this qualified id.
func (c *Client) Source(ctx context.Context, connectorID string) (*Source, error) {
	conn, err := c.connect(ctx, connectorID)
	if err != nil {
		return nil, err
	}
	conn.service = "SourcePlugin"
	return newSource(conn), nil
}

// Destination starts a process for the destination with this qualified id.
func (c *Client) Destination(ctx context.Context, connectorID string) (*Destination, error) {
	conn, err := c.connect(ctx, connectorID)
	if err != nil {
		return nil, err
	}
	conn.service = "DestinationPlugin"
	return newDestination(conn), nil
}

func (c *Client) connect(ctx context.Context, connectorID string) (*instance, error) {
	log := c.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	log = log.With("component", "plugin", "connector_id", connectorID, "plugin_name", c.name())
	timeout := c.StartTimeout
	if timeout == 0 {
		timeout = defaultStartTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p, err := c.start(ctx, connectorID, log)
	if err != nil {
		return nil, err
	}
	return &instance{id: connectorID, client: c, p: p, log: log}, nil
}

func (c *Client) start(ctx context.Context, connectorID string, log *slog.Logger) (*process, error) {
	token := rand.Text()
	if c.Connector != nil {
		return c.serveHere(connectorID, token, log)
	}
	serve := func(dir string) (*schemaService, error) {
		// the directory is removed as soon as there is a connection
		if c.TempDir == "" && c.Sandbox == nil && runtime.GOOS == "linux" {
			dir = ""
		}
		return c.Schemas.serve(connectorID, token, dir)
	}
	r := newExecutable(c.Path, c.environment(connectorID, token), serve)
	r.sandbox, r.terminate = c.Sandbox, c.endTimeouts().terminate
	if c.TempDir != "" {
		if err := os.MkdirAll(c.TempDir, 0o700); err != nil {
			return nil, fmt.Errorf("cannot create the directory for plugin sockets: %w", err)
		}
	}
	return startProcess(ctx, r, c.TempDir, c.maxReceive(), c.endTimeouts(), log)
}

func (c *Client) name() string {
	switch {
	case c.Name != "":
		return c.Name
	case c.Connector != nil:
		return c.Connector.Name
	}
	return filepath.Base(c.Path)
}

// environment returns the environment of the process: the inherited one without variables of other plugin hosts,
// followed by our own variables, which take precedence.
func (c *Client) environment(connectorID, token string) []string {
	inherited := c.Env
	if inherited == nil {
		inherited = os.Environ()
	}
	env := make([]string, 0, len(inherited)+12)
	for _, v := range inherited {
		if !strings.HasPrefix(v, "PLUGIN_") {
			env = append(env, v)
		}
	}
	level := c.LogLevel
	if level == "" {
		level = "info" // plugins have no level for silence
	}
	return append(env,
		wire.EnvToken+"="+token,
		wire.EnvConnectorID+"="+connectorID,
		wire.EnvLogLevel+"="+level,
		wire.EnvMaxMessage+"="+strconv.Itoa(c.maxMessage()))
}

func (c *Client) maxMessage() int {
	if c.MaxMessage == 0 {
		return wire.DefaultMaxMessage
	}
	return c.MaxMessage
}

func (c *Client) maxReceive() int {
	if c.MaxReceive == 0 {
		return defaultMaxReceive
	}
	return c.MaxReceive
}

// instance is the common part of sources and destinations: most messages of both have the same form in both versions of
// the protocol.
type instance struct {
	id      string
	client  *Client
	p       *process
	log     *slog.Logger
	service string
}

// LogThrough wraps the log handler of the plugin with wrap, and redacts plugin output in errors. It must be called
// before Configure: until then the plugin knows no settings.
func (c *instance) LogThrough(wrap func(slog.Handler) slog.Handler, redact func(string) string) {
	c.log = slog.New(wrap(c.log.Handler()))
	c.p.stderr.logTo(c.log, redact)
	c.p.printed.logTo(c.log, redact)
}

// Configure sends the settings to the plugin.
func (c *instance) Configure(ctx context.Context, settings map[string]string) error {
	return c.call(ctx, "Configure", c.client.callTimeout(), &connectorv2.Source_Configure_Request{Config: settings},
		&connectorv2.Source_Configure_Response{})
}

// LifecycleOnCreated notifies the plugin that the connector is new. It ignores that a plugin does not implement the
// call.
func (c *instance) LifecycleOnCreated(ctx context.Context, settings map[string]string) error {
	return c.lifecycle(ctx, "LifecycleOnCreated", &connectorv2.Source_Lifecycle_OnCreated_Request{Config: settings})
}

// LifecycleOnUpdated notifies the plugin that the settings have changed.
func (c *instance) LifecycleOnUpdated(ctx context.Context, before, after map[string]string) error {
	return c.lifecycle(ctx, "LifecycleOnUpdated", &connectorv2.Source_Lifecycle_OnUpdated_Request{ConfigBefore: before,
		ConfigAfter: after})
}

// LifecycleOnDeleted notifies the plugin that the connector was deleted.
func (c *instance) LifecycleOnDeleted(ctx context.Context, settings map[string]string) error {
	return c.lifecycle(ctx, "LifecycleOnDeleted", &connectorv2.Source_Lifecycle_OnDeleted_Request{Config: settings})
}

func (c *instance) lifecycle(ctx context.Context, method string, req proto.Message) error {
	err := c.call(ctx, method, c.client.callTimeout(), req, &connectorv2.Source_Lifecycle_OnCreated_Response{})
	if errors.Is(err, wire.ErrUnimplemented) {
		return nil
	}
	return err
}

func (c *instance) open(ctx context.Context, pos record.Position) error {
	method := "Open"
	if c.p.version == wire.Version1 {
		method = "Start"
	}
	return c.call(ctx, method, c.client.callTimeout(), &connectorv2.Source_Open_Request{Position: pos},
		&connectorv2.Source_Open_Response{})
}

// expired reports whether the deadline of a call has passed. The plugin's clock may be slightly ahead of ours.
func expired(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && !errors.Is(ctx.Err(), context.Canceled) && time.Until(deadline) < 20*time.Millisecond
}

// call calls a method of the plugin with the given timeout.
func (c *instance) call(ctx context.Context, method string, timeout time.Duration, req, resp proto.Message) error {
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline))
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var trailer metadata.MD
	err := c.p.conn.Invoke(ctx, c.method(method), req, resp, grpc.Trailer(&trailer))
	if err == nil {
		return nil
	}
	if !expired(ctx) {
		return fmt.Errorf("cannot call %s of connector %s: %w", method, c.id, c.p.meant(err, trailer))
	}
	// The plugin may notice the deadline first and answer that the call was cancelled.
	err = c.p.meant(status.FromContextError(context.DeadlineExceeded).Err(), trailer)
	return fmt.Errorf("cannot call %s of connector %s: no response within %v: %w",
		method, c.id, timeout.Round(time.Millisecond), err)
}

func (c *instance) method(name string) string {
	return fmt.Sprintf("/connector.v%d.%s/%s", c.p.version, c.service, name)
}

// teardown makes the last call and ends the process, even if the call fails. It makes none if an earlier call reported
// the end of the process: the error would repeat that.
func (c *instance) teardown(ctx context.Context) error {
	if c.p.reported.Load() {
		c.end()
		return nil
	}
	err := c.call(ctx, "Teardown", teardownTimeout, &connectorv2.Source_Teardown_Request{},
		&connectorv2.Source_Teardown_Response{})
	c.end()
	if errors.Is(err, wire.ErrUnimplemented) {
		return nil
	}
	return err
}

func (c *instance) end() { c.p.kill() }

// PID returns the id of the connector's process, which is also the id of its process group, or 0 if the connector runs
// in this process.
func (c *instance) PID() int { return c.p.runner.pid() }
