package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"
)

// process is a running plugin and the connection to it.
type process struct {
	path    string
	log     *slog.Logger
	cmd     *exec.Cmd    // nil: it is served from this process
	server  *grpc.Server // nil: it is a process
	dir     string       // private, for its socket
	stdout  *firstLine
	stderr  *logWriter
	exited  chan struct{} // closed when it has ended
	exitErr error         // set before exited is closed

	version int
	conn    *grpc.ClientConn
	stdio   context.CancelFunc

	maxReceive int // bytes of a message from it
}

// startProcess starts the executable and connects to it.
func startProcess(ctx context.Context, path string, env []string, maxReceive int, log *slog.Logger) (*process, error) {
	p := &process{path: path, log: log, exited: make(chan struct{}), stdout: newFirstLine(), stderr: newLogWriter(log), maxReceive: maxReceive}
	if err := p.start(env); err != nil {
		return nil, fmt.Errorf("cannot start plugin %s: %w", filepath.Base(path), err)
	}
	if err := p.connect(ctx); err != nil {
		p.kill()
		return nil, fmt.Errorf("cannot start plugin %s: %w", filepath.Base(path), p.explain(err))
	}
	return p, nil
}

func (p *process) start(env []string) (err error) {
	if p.dir, err = os.MkdirTemp("", "conduit-"); err != nil {
		return err
	}
	p.cmd = exec.Command(p.path)
	p.cmd.Env = append(env,
		handshake.MagicCookieKey+"="+handshake.MagicCookieValue,
		"PLUGIN_MIN_PORT=10000", "PLUGIN_MAX_PORT=25000",
		"PLUGIN_PROTOCOL_VERSIONS=1,2",
		"PLUGIN_UNIX_SOCKET_DIR="+p.dir)
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	p.cmd.SysProcAttr = processAttributes()
	p.cmd.WaitDelay = time.Second // a grandchild may hold on to the output
	started := make(chan error)
	go p.run(started)
	if err = <-started; err != nil {
		_ = os.RemoveAll(p.dir)
	}
	return err
}

// run starts the process and waits for its end. Both happen on one thread that lives
// as long, because the process is killed when the thread that started it ends.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	endChildren(p.cmd.Process.Pid)
	if p.exitErr = p.cmd.Wait(); p.exitErr == nil {
		p.exitErr = errors.New("exit status 0")
	}
	p.stderr.flush()
	close(p.exited)
}

// connect waits for the plugin to say where it listens and dials it.
func (p *process) connect(ctx context.Context) error {
	var line string
	select {
	case line = <-p.stdout.line:
	case <-p.exited:
		return errors.New("it ended before it was ready")
	case <-ctx.Done():
		return fmt.Errorf("it did not get ready: %w", context.Cause(ctx))
	}
	version, network, address, err := parseHandshake(line)
	if err != nil {
		return err
	}
	p.version = version
	return p.dial(network, address)
}

// dial connects to the plugin at the first call.
func (p *process) dial(network, address string) (err error) {
	p.conn, err = grpc.NewClient("passthrough:///plugin",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(p.maxReceive), grpc.MaxCallSendMsgSize(1<<31-1), grpc.ForceCodecV2(newCodec())),
		grpc.WithInitialWindowSize(1<<20), grpc.WithInitialConnWindowSize(4<<20),
		grpc.WithReadBufferSize(128<<10), grpc.WithWriteBufferSize(128<<10))
	if err != nil {
		return err
	}
	stdioCtx, cancel := context.WithCancel(context.Background())
	p.stdio = cancel
	go p.drainStdio(stdioCtx)
	return nil
}

// parseHandshake reads CORE|APP|NETWORK|ADDRESS|PROTOCOL, with more behind it.
func parseHandshake(line string) (version int, network, address string, err error) {
	f := strings.Split(strings.TrimSpace(line), "|")
	if len(f) < 5 || f[0] != "1" || f[4] != "grpc" {
		return 0, "", "", fmt.Errorf("it is not a connector: it said %.100q", line)
	}
	version, err = strconv.Atoi(f[1])
	if err != nil || version != version1 && version != version2 {
		return 0, "", "", fmt.Errorf("it speaks version %.20q of the connector protocol; known are 1 and 2", f[1])
	}
	if f[2] != "unix" && f[2] != "tcp" {
		return 0, "", "", fmt.Errorf("it listens on an unknown network %.20q", f[2])
	}
	if f[2] == "tcp" && !isLocal(f[3]) {
		return 0, "", "", fmt.Errorf("it listens at %.100q, which is not this machine's own address", f[3])
	}
	return version, f[2], f[3], nil
}

// isLocal reports whether only this machine can be listening at the address.
func isLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip.IsLoopback())
}

// drainStdio logs what the connector prints. A Go plugin blocks when nobody reads it.
func (p *process) drainStdio(ctx context.Context) {
	stream, err := p.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/plugin.GRPCStdio/StreamStdio")
	if err != nil {
		return
	}
	if stream.SendMsg(&emptypb.Empty{}) != nil || stream.CloseSend() != nil {
		return
	}
	out := newLogWriter(p.log)
	defer out.flush()
	for {
		var f frame
		if stream.RecvMsg(&f) != nil {
			return
		}
		_ = eachBytes(f, func(num protowire.Number, v []byte) error {
			if num == 2 {
				_, _ = out.Write(v)
			}
			return nil
		})
	}
}

// kill ends the process: it is asked, then told, then killed with all its children.
// It returns when the process is gone.
func (p *process) kill() {
	if p.conn != nil {
		if p.askToExit() {
			p.exitedWithin(shutdownTimeout)
		}
		p.stdio()
		_ = p.conn.Close()
	}
	if !p.exitedWithin(0) {
		p.terminate()
	}
	_ = os.RemoveAll(p.dir)
}

func (p *process) terminate() {
	if p.server != nil {
		p.server.Stop()
		<-p.exited
		return
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	if !p.exitedWithin(terminateTimeout) {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
	<-p.exited
}

// askToExit reports whether the plugin can be asked at all. It may end before it answers.
func (p *process) askToExit() bool {
	if p.exitedWithin(0) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	err := p.conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
	return status.Code(err) != codes.Unimplemented
}

func (p *process) exitedWithin(d time.Duration) bool {
	if d == 0 {
		select {
		case <-p.exited:
			return true
		default:
			return false
		}
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
		return false
	}
}

// explain returns the error of a call as the plugin meant it. If the connection broke it
// adds how the process ended and its last words.
func (p *process) explain(err error) error {
	if err == nil {
		return nil
	}
	code := status.Code(err)
	lost := code == codes.Unavailable || p.exitedWithin(0)
	err = plainError(err)
	if errors.Is(err, io.EOF) {
		return err
	}
	if lost || code == codes.DeadlineExceeded {
		err = lostError{err}
	}
	if !lost || !p.exitedWithin(100*time.Millisecond) {
		return err
	}
	if said := p.stderr.last(); said != "" {
		return fmt.Errorf("%w (the plugin process ended: %w; it said last: %s)", err, p.exitErr, said)
	}
	return fmt.Errorf("%w (the plugin process ended: %w)", err, p.exitErr)
}
