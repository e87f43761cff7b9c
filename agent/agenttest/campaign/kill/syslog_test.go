package kill_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
)

// TestSyslogSource receives over one connection, which is delayed. As the page says, received records that are not
// written when the agent ends are lost, and so are records in flight when the connection ends.
func TestSyslogSource(t *testing.T) {
	load.Parallel(t, load.Agent)
	const unconfirmed = "the protocol has no acknowledgements: what was under way is lost"
	kill.RunSource(t, kill.Source{
		Plugin: "builtin:syslog",
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
					return map[string]string{"address": own, "protocols": "tcp"}
				},
				Produce: func(ctx context.Context, first, n int) (err error) {
					if sender == nil {
						if sender, err = connected(ctx, own, through); err != nil {
							return err
						}
					}
					var text []byte
					for i := range n {
						text = fmt.Appendf(text, "<13>1 - - - - - - %d\n", first+i)
					}
					_, err = sender.Write(text)
					return err
				},
			}
		},
		Number: func(r *kill.Line) (int, error) {
			var payload struct{ Message string }
			if err := r.Decode(&payload); err != nil {
				return 0, err
			}
			return strconv.Atoi(payload.Message)
		},
		Skip: map[kill.Fault]string{
			kill.AgentKilled: unconfirmed, kill.AgentStopped: unconfirmed, kill.ConnectionCut: unconfirmed,
			kill.ConnectionRefused: unconfirmed, kill.ConnectionStalled: unconfirmed,
			kill.ConnectionHalfOpen: unconfirmed, kill.Everything: unconfirmed,
		},
	})
}

// connected connects through the proxy once the source listens: the proxy itself accepts every connection.
func connected(ctx context.Context, own, through string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", own)
	if err != nil {
		return nil, err
	}
	if err := c.Close(); err != nil {
		return nil, err
	}
	return d.DialContext(ctx, "tcp", through)
}

// TestSyslogDestination sends to a real daemon over TCP, where only the kernel acknowledges. Bytes that the kernel
// acknowledged are lost if the daemon or the proxy did not read them before it ended or closed the connection.
func TestSyslogDestination(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	const unconfirmed = "the protocol has no acknowledgements: what the kernel took and the process did not read " +
		"is lost"
	kill.RunDestination(t, kill.Destination{
		Plugin: "builtin:syslog", Unordered: true, Reread: true, // by the daemon, with several connections
		System: func(t *testing.T, _ string) *kill.System {
			r := server.StartRsyslog(t, "")
			return &kill.System{
				Addr: r.Addr, Server: r, ByKernel: true,
				Settings: func(addr string) map[string]string {
					return map[string]string{"address": addr, "sdk.record.format": "template",
						"sdk.record.format.options": "{{ .Payload.After.n }}"}
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

// numbersIn returns the numbers that are lines of a file.
func numbersIn(path string) (all []int, err error) {
	content, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	for line := range bytes.Lines(content) {
		if n, err := strconv.Atoi(string(bytes.TrimSpace(line))); err == nil {
			all = append(all, n)
		}
	}
	return all, err
}
