package standalone

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/wire"
	plugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
)

// inProcess serves a connector from this process to go-plugin, which takes it for one
// that runs already.
type inProcess struct {
	name   string
	server *grpc.Server
	dir    string // private, for its socket
	used   any    // by the connector; closed last

	ended chan struct{} // closed when it is served no more
	err   error         // why, set before ended is closed
}

// serveHere serves an instance of the connector from this process and connects to it as
// if it were another one.
func (c *Client) serveHere(connectorID, target, token string, log *slog.Logger) (*process, error) {
	schemas, err := wire.DialSchemas(target, token)
	if err != nil {
		return nil, err
	}
	env := &sdk.Env{ConnectorID: connectorID, PluginName: c.Connector.Name, Logger: log, Schemas: schemas}
	r := &inProcess{name: c.Connector.Name, server: wire.NewServer(*c.Connector, env, c.maxMessage()), used: schemas, ended: make(chan struct{})}
	address, err := r.serve()
	if err != nil {
		return nil, fmt.Errorf("cannot serve connector %s: %w", c.Connector.Name, err)
	}
	p := newProcess(r, c.maxReceive(), log)
	config := p.config()
	config.Reattach = &plugin.ReattachConfig{Protocol: plugin.ProtocolGRPC, Addr: address,
		ReattachFunc: func() (runner.AttachedRunner, error) { return r, nil }}
	if err = p.connect(config); err == nil {
		err = p.unlink(context.Background(), r.dir)
	}
	if err != nil {
		p.kill()
		return nil, fmt.Errorf("cannot serve connector %s: %w", c.Connector.Name, err)
	}
	p.version = wire.Version2 // an attached plugin is not asked
	return p, nil
}

// serve begins to serve, until Kill.
func (r *inProcess) serve() (net.Addr, error) {
	dir, err := os.MkdirTemp("", "conduit-")
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	r.dir = dir
	go func() {
		defer close(r.ended)
		if r.err = r.server.Serve(listener); r.err == nil {
			r.err = grpc.ErrServerStopped
		}
		if closer, ok := r.used.(io.Closer); ok {
			_ = closer.Close()
		}
		_ = os.RemoveAll(r.dir)
	}()
	return listener.Addr(), nil
}

// Wait waits until the connector is served no more.
func (r *inProcess) Wait(context.Context) error {
	<-r.ended
	return r.err
}

// Kill ends the server and all calls.
func (r *inProcess) Kill(context.Context) error {
	r.server.Stop()
	<-r.ended
	return nil
}

// ID returns the name of the connector.
func (r *inProcess) ID() string { return r.name }

// PluginToHost changes nothing.
func (r *inProcess) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin changes nothing.
func (r *inProcess) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

func (r *inProcess) exited() <-chan struct{} { return r.ended }

func (r *inProcess) exitError() error { return r.err }

func (r *inProcess) pid() int { return 0 }
