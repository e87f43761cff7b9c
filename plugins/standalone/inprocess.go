package standalone

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	plugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"

	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/wire"
)

// inProcess serves a connector from this process to go-plugin, which treats it as a process that is already running.
type inProcess struct {
	name   string
	server *grpc.Server
	dir    string // private directory for its socket
	served *schemaService
	used   schema.Registry // registry of the connector, closed last

	ended chan struct{} // closed when serving has ended
	err   error         // reason for the end, set before ended is closed
}

// serveHere serves an instance of the connector from this process and connects to it as to another process.
func (c *Client) serveHere(connectorID, token string, log *slog.Logger) (*process, error) {
	r, address, err := c.newInProcess(connectorID, token, log)
	if err != nil {
		return nil, fmt.Errorf("cannot serve connector %s: %w", c.Connector.Name, err)
	}
	p := newProcess(r, c.maxReceive(), c.endTimeouts(), log)
	config := p.config()
	config.Reattach = &plugin.ReattachConfig{Protocol: plugin.ProtocolGRPC, Addr: address,
		ReattachFunc: func() (runner.AttachedRunner, error) { return r, nil }}
	if err = p.connect(config); err != nil {
		p.kill()
		return nil, fmt.Errorf("cannot serve connector %s: %w", c.Connector.Name, err)
	}
	p.version = wire.Version2 // go-plugin does not ask an attached plugin
	return p, nil
}

// newInProcess serves the connector, and schemas to it, until Kill.
func (c *Client) newInProcess(connectorID, token string, log *slog.Logger) (_ *inProcess, _ net.Addr, err error) {
	r := &inProcess{name: c.Connector.Name, ended: make(chan struct{})}
	if r.dir, err = os.MkdirTemp("", "conduit-"); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			r.discard()
		}
	}()
	if r.served, err = c.Schemas.serve(connectorID, token, r.dir); err != nil {
		return nil, nil, err
	}
	if r.used, err = wire.DialSchemas(r.served.target(false), token); err != nil {
		return nil, nil, err
	}
	listener, err := net.Listen("unix", filepath.Join(r.dir, "socket"))
	if err != nil {
		return nil, nil, err
	}
	env := &sdk.Env{ConnectorID: connectorID, PluginName: c.Connector.Name, Logger: log, Schemas: r.used}
	r.server = wire.NewServer(*c.Connector, env, c.maxMessage())
	go r.serve(listener)
	return r, listener.Addr(), nil
}

// serve serves the connector until Kill.
func (r *inProcess) serve(listener net.Listener) {
	defer close(r.ended)
	if r.err = r.server.Serve(listener); r.err == nil {
		r.err = grpc.ErrServerStopped
	}
	r.discard()
}

// discard removes the files of the connector.
func (r *inProcess) discard() {
	if closer, ok := r.used.(io.Closer); ok {
		_ = closer.Close()
	}
	r.served.stop()
	_ = os.RemoveAll(r.dir)
}

// Wait waits until serving has ended.
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
