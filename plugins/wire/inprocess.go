package wire

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"google.golang.org/grpc"
)

// serveHere serves an instance of the connector from this process and connects to it as
// if it were another one.
func (c *Client) serveHere(connectorID, target, token string, log *slog.Logger) (*process, error) {
	schemas, err := dialSchemas(target, token)
	if err != nil {
		return nil, err
	}
	p := &process{path: c.Connector.Name, log: log, exited: make(chan struct{}), stderr: newLogWriter(log), maxReceive: c.maxReceive()}
	env := &sdk.Env{ConnectorID: connectorID, PluginName: c.Connector.Name, Logger: log, Schemas: schemas}
	p.server = newServer(nil, c.maxMessage())
	register(p.server, *c.Connector, env)
	if err := p.serve(schemas); err != nil {
		return nil, fmt.Errorf("cannot serve connector %s: %w", c.Connector.Name, err)
	}
	return p, nil
}

// serve begins to serve, until kill, and dials. What the connector used goes last.
func (p *process) serve(used any) (err error) {
	if p.dir, err = os.MkdirTemp("", "conduit-"); err != nil {
		return err
	}
	address := filepath.Join(p.dir, "socket")
	listener, err := net.Listen("unix", address)
	if err != nil {
		_ = os.RemoveAll(p.dir)
		return err
	}
	go func() {
		defer close(p.exited)
		if p.exitErr = p.server.Serve(listener); p.exitErr == nil {
			p.exitErr = grpc.ErrServerStopped
		}
		if closer, ok := used.(io.Closer); ok {
			p.exitErr = errors.Join(p.exitErr, closer.Close())
		}
	}()
	p.version = version2
	if err = p.dial("unix", address); err != nil {
		p.kill()
	}
	return err
}
