package standalone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	hclog "github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/wire"
)

// process is a running plugin and the connection to it.
type process struct {
	client  *plugin.Client
	conn    *grpc.ClientConn
	version int
	runner  attached
	stderr  *logWriter
	printed *logWriter // output of the connector itself on stdout and stderr

	reported atomic.Bool // an error of a call named the end of the process

	maxReceive int // maximum size of a message from it, in bytes
	ends       endTimeouts
}

// attached is the process, or the goroutines of this process, that a plugin runs in.
type attached interface {
	runner.AttachedRunner
	exited() <-chan struct{} // closed when it has ended and all its output was read
	exitError() error        // reason for the end
	pid() int                // 0: served from this process
}

func newProcess(r attached, maxReceive int, ends endTimeouts, log *slog.Logger) *process {
	stderr := newLogWriter(log)
	return &process{runner: r, stderr: stderr, printed: &logWriter{log: log, throttle: stderr.throttle},
		maxReceive: maxReceive, ends: ends}
}

// startProcess starts the executable, with a private directory in tempDir, and connects to it.
func startProcess(
	ctx context.Context, r *executable, tempDir string, maxReceive int, ends endTimeouts, log *slog.Logger,
) (*process, error) {
	p := newProcess(r, maxReceive, ends, log)
	config := p.config()
	config.RunnerFunc = r.prepare
	config.UnixSocketConfig = &plugin.UnixSocketConfig{TempDir: tempDir}
	config.StartTimeout = time.Hour // ctx ends earlier
	defer context.AfterFunc(ctx, func() { _ = r.Kill(ctx) })()
	err := p.connect(config)
	if err == nil && tempDir == "" && r.sandbox == nil && !r.served.hasFile() { // else it is still needed
		err = p.unlink(ctx, r.dir)
	}
	if err == nil {
		return p, nil
	}
	if r.pid() != 0 {
		p.kill()
		err = p.explain(r.whyNotReady(ctx, err))
	}
	return nil, fmt.Errorf("cannot start plugin %s: %w", filepath.Base(r.path), err)
}

// config returns the common configuration of all go-plugin clients. go-plugin's own log is off, because its errors
// contain everything relevant.
func (p *process) config() *plugin.ClientConfig {
	return &plugin.ClientConfig{
		HandshakeConfig:  wire.Handshake,
		VersionedPlugins: map[int]plugin.PluginSet{wire.Version1: {}, wire.Version2: {}},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		SkipHostEnv:      true,
		Stderr:           p.stderr,
		SyncStdout:       p.printed,
		SyncStderr:       p.printed,
		Logger:           hclog.New(&hclog.LoggerOptions{Level: hclog.Off, Output: io.Discard}),
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(p.maxReceive), grpc.ForceCodecV2(wire.NewCodec())),
			grpc.WithMaxHeaderListSize(maxHeaders),
			grpc.WithInitialWindowSize(1 << 20), grpc.WithInitialConnWindowSize(4 << 20),
			grpc.WithIdleTimeout(0), // the socket may be gone
			grpc.WithReadBufferSize(128 << 10), grpc.WithWriteBufferSize(128 << 10),
			grpc.WithUnaryInterceptor(p.shutdown), grpc.WithStreamInterceptor(auxiliaryStream),
		},
	}
}

// connect starts the plugin and dials it.
func (p *process) connect(config *plugin.ClientConfig) error {
	p.client = plugin.NewClient(config)
	client, err := p.client.Client()
	if err != nil {
		return err
	}
	p.conn = client.(*plugin.GRPCClient).Conn
	p.version = p.client.NegotiatedVersion()
	return nil
}

// unlink removes the directory with the socket once the connection is established, so that it never remains, however
// this process ends.
func (p *process) unlink(ctx context.Context, dir string) error {
	for state := p.conn.GetState(); state != connectivity.Ready; state = p.conn.GetState() {
		if state == connectivity.TransientFailure || state == connectivity.Shutdown {
			return nil // the first call returns the reason
		}
		p.conn.Connect()
		if !p.conn.WaitForStateChange(ctx, state) {
			return context.Cause(ctx)
		}
	}
	return os.RemoveAll(dir)
}

// shutdown limits the time of the exit request, which go-plugin makes without a deadline. A plugin that does not know
// the request, or that there is no connection to, receives a signal at once, where go-plugin would wait first.
func (p *process) shutdown(
	ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	if method != "/plugin.GRPCController/Shutdown" {
		return invoke(ctx, method, req, reply, conn, options...)
	}
	ctx, cancel := context.WithTimeout(ctx, p.ends.shutdown)
	defer cancel()
	unreachable := conn.GetState() == connectivity.TransientFailure
	err := invoke(ctx, method, req, reply, conn, options...)
	if status.Code(err) == codes.Unimplemented || err != nil && unreachable {
		_ = p.runner.Kill(ctx)
	}
	return err
}

// maxHeaders limits the headers of an answer, which contain the text of an error, in bytes.
const maxHeaders = 1 << 20

// maxPrinted limits a message with output of a connector, in bytes.
const maxPrinted = 1 << 20

// auxiliaryStream limits go-plugin's own streams: the stream of the connector's output, and the stream of the broker.
// Connectors do not use the broker, and a plugin could make go-plugin remember any number of connections through it.
func auxiliaryStream(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
	options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	switch method {
	case "/plugin.GRPCBroker/StartStream":
		return nil, wire.ErrUnimplemented
	case "/plugin.GRPCStdio/StreamStdio":
		options = append(options, grpc.MaxCallRecvMsgSize(maxPrinted))
	}
	return open(ctx, desc, conn, method, options...)
}

// kill ends the plugin: by request, then with SIGTERM, then with SIGKILL to its process group. It returns when the
// plugin has ended.
func (p *process) kill() {
	p.client.Kill()
	p.printed.flush()
	p.stderr.flush()
}

func (p *process) exitedWithin(d time.Duration) bool {
	if d == 0 {
		return isClosed(p.runner.exited())
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.runner.exited():
		return true
	case <-timer.C:
		return false
	}
}

// explain returns the error of a call in the plugin's words. If the connection broke, explain adds how the process
// ended and its last output.
func (p *process) explain(err error) error { return p.explainWithin(p.ends.exit, err) }

// explainWithin is like explain. If the connection may be broken, it waits that long for the end of the process.
func (p *process) explainWithin(exit time.Duration, err error) error {
	if err == nil {
		return nil
	}
	code := status.Code(err)
	lost := code == codes.Unavailable || p.exitedWithin(0)
	err = wire.PlainError(err)
	if errors.Is(err, wire.ErrTooLarge) {
		err = fmt.Errorf("%w; connectors.max-message-bytes is %d", err, p.maxReceive)
	}
	if errors.Is(err, io.EOF) {
		return err
	}
	if lost || code == codes.DeadlineExceeded {
		err = lostError{err}
	}
	if !lost || !p.exitedWithin(exit) {
		return err
	}
	p.reported.Store(true)
	if said := p.stderr.last(); said != "" {
		return fmt.Errorf("%w (the plugin process ended: %w; its last output: %s)", err, p.runner.exitError(), said)
	}
	return fmt.Errorf("%w (the plugin process ended: %w)", err, p.runner.exitError())
}

// meant is like explain for the error of a call with this trailer, which may mark the error as permanent.
func (p *process) meant(err error, trailer metadata.MD) error {
	permanent, answered := wire.IsPermanent(trailer)
	if !answered {
		return p.explain(err)
	}
	if err = p.explainWithin(0, err); permanent { // the connection is not broken
		return sdk.Permanent(err)
	}
	return err
}

// lostError means that the plugin ended or did not respond. It is no refusal.
type lostError struct{ error }

// Lost reports that a retry may succeed.
func (lostError) Lost() bool { return true }

// Unwrap returns the cause.
func (e lostError) Unwrap() error { return e.error }
