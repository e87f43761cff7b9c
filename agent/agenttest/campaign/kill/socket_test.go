package kill_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/spec"
)

// TestSocketSource receives lines over one connection, which is delayed. As the page says, received records that are
// not written when the agent ends are lost, and so are records in flight when the connection ends.
func TestSocketSource(t *testing.T) {
	load.Parallel(t, load.Agent)
	const unconfirmed = "the protocol has no acknowledgements: what was under way is lost"
	kill.RunSource(t, kill.Source{
		Plugin: "builtin:socket",
		System: func(t *testing.T, _ string) *kill.System {
			own, through := fmt.Sprintf("127.0.0.1:%d", network.FreePort(t)), ""
			var sender net.Conn
			t.Cleanup(func() {
				if sender != nil {
					_ = sender.Close()
				}
			})
			return &kill.System{
				Addr: own,
				Settings: func(addr string) map[string]string {
					through = addr
					return map[string]string{"address": "tcp://" + own}
				},
				Produce: func(ctx context.Context, first, n int) (err error) {
					if sender == nil {
						if sender, err = connected(ctx, own, through); err != nil {
							return err
						}
					}
					var text []byte
					for i := range n {
						text = fmt.Appendln(text, first+i)
					}
					_, err = sender.Write(text)
					return err
				},
			}
		},
		Number: func(r *kill.Line) (n int, err error) {
			err = r.Decode(&n)
			return n, err
		},
		Skip: map[kill.Fault]string{
			kill.AgentKilled: unconfirmed, kill.AgentStopped: unconfirmed, kill.ConnectionCut: unconfirmed,
			kill.ConnectionRefused: unconfirmed, kill.ConnectionStalled: unconfirmed,
			kill.ConnectionHalfOpen: unconfirmed, kill.Everything: unconfirmed,
		},
	})
}

// TestSocketDestination sends lines to a real daemon over TCP, where only the kernel acknowledges. Bytes that the
// kernel acknowledged are lost if the daemon or the proxy did not read them before it ended or closed the connection.
func TestSocketDestination(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	const unconfirmed = "the protocol has no acknowledgements: what the kernel took and the process did not read " +
		"is lost"
	kill.RunDestination(t, kill.Destination{
		Plugin: "builtin:socket", Unordered: true, Reread: true, // by the daemon, with several connections
		System: func(t *testing.T, _ string) *kill.System {
			r := server.StartRsyslog(t, "")
			return &kill.System{
				Addr: r.Addr, Server: r, ByKernel: true,
				Settings: func(addr string) map[string]string {
					return map[string]string{"address": "tcp://" + addr, "framing": "octet-counted",
						"frame": "<13>1 - - - - - - {{ .Payload.After.n }}"}
				},
				Stored: func(context.Context) ([]int, error) { return numbersIn(r.Output) },
			}
		},
		Skip: map[kill.Fault]string{
			kill.ServerKilled: unconfirmed, kill.ServerRestarted: unconfirmed, kill.ConnectionCut: unconfirmed,
			kill.ConnectionRefused: unconfirmed, kill.ConnectionStalled: unconfirmed, kill.Everything: unconfirmed,
		},
	})
}

// TestSocketClientsDestination sends lines to a client that connects to the agent, and again after each end.
func TestSocketClientsDestination(t *testing.T) {
	load.Parallel(t, load.Agent)
	kill.RunDestination(t, kill.Destination{
		Plugin: "builtin:socket",
		System: func(t *testing.T, dir string) *kill.System {
			c := &lineClient{path: filepath.Join(dir, "lines.sock")}
			var running sync.WaitGroup
			running.Go(func() { c.run(t.Context()) })
			t.Cleanup(running.Wait)
			return &kill.System{
				Settings: func(string) map[string]string {
					return map[string]string{"address": "unix://" + c.path, "mode": "listen",
						"frame": "{{ .Payload.After.n }}"}
				},
				Stored: func(context.Context) ([]int, error) { return c.stored(), nil },
			}
		},
	})
}

// lineClient keeps the numbers that it receives as lines of a Unix socket.
type lineClient struct {
	path string

	mu  sync.Mutex
	all []int // guarded by mu
}

// run connects until ctx ends.
func (c *lineClient) run(ctx context.Context) {
	common.Repeat(ctx, func(works func()) error {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", c.path)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		for lines := bufio.NewReader(conn); ; works() {
			line, err := lines.ReadString('\n')
			if err != nil {
				return err // a line without an end comes again
			}
			n, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil {
				return err
			}
			c.mu.Lock()
			c.all = append(c.all, n)
			c.mu.Unlock()
		}
	}, func(error) bool { return true })
}

func (c *lineClient) stored() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

// TestSocketExample runs the example of the connector's page, with the address and the path of the test.
func TestSocketExample(t *testing.T) {
	load.Parallel(t, load.Agent)
	a, addr := agenttest.Start(t, ""), fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))
	path := a.Path("lines.sock")
	file := replace(t, example(t, "plugins/builtin/socket/README.md"), "127.0.0.1:5140", addr)
	a.Save("lines.yaml", replace(t, file, "/run/app/lines.sock", path))
	a.WaitPhase("lines", spec.PhaseRunning, 1)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v, %v", info, err)
	}
	app, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = app.Close() }()
	device, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = device.Close() }()
	if _, err := device.Write([]byte("21.5\n22\n")); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(app)
	for _, want := range []string{"21.5\n", "22\n"} {
		if line, err := lines.ReadString('\n'); line != want {
			t.Fatalf("got %q, %v, want %q", line, err, want)
		}
	}
}
