package kill_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
)

// numbered returns n lines with the numbers from first on.
func numbered(first, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"n\":%d}\n", first+i)
	}
	return b.String()
}

// TestHTTPServerSource sends requests to the agent: no request that is answered 2xx is lost.
func TestHTTPServerSource(t *testing.T) {
	load.Parallel(t, load.Agent)
	kill.RunSource(t, kill.Source{
		Plugin: "builtin:http",
		System: func(t *testing.T, dir string) *kill.System {
			own, through := fmt.Sprintf("127.0.0.1:%d", network.FreePort(t)), ""
			token, rotate := rotatedToken(t, dir)
			return &kill.System{
				Addr: own,
				Settings: func(addr string) map[string]string {
					through = addr
					return map[string]string{"address": own, "auth.token": "${file:" + token + "}"}
				},
				Rotate: rotate,
				Produce: func(ctx context.Context, first, n int) error {
					_, err := call(ctx, "POST", through, token, numbered(first, n))
					return err
				},
			}
		},
	})
}

// TestHTTPPollSource polls a server with a cursor.
func TestHTTPPollSource(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	kill.RunSource(t, kill.Source{
		Plugin: "builtin:http",
		System: func(t *testing.T, dir string) *kill.System {
			a := startAPI(t, dir)
			return &kill.System{
				Addr: a.addr, Server: a, Rotate: a.rotate,
				Settings: func(addr string) map[string]string {
					return map[string]string{"url": "http://" + addr + "/", "auth.token": "${file:" + a.token + "}",
						"pollingPeriod": "20ms", "timeout": "2s",
						"records.path": "items", "cursor.field": "seq", "cursor.param": "since", "pagination": "token",
						"pagination.path": "next", "pagination.param": "offset"}
				},
				Produce: func(ctx context.Context, first, n int) error {
					_, err := a.do(ctx, "POST", numbered(first, n))
					return err
				},
			}
		},
		Number: func(r *kill.Line) (int, error) {
			var payload struct{ Item struct{ N int } }
			err := r.Decode(&payload)
			return payload.Item.N, err
		},
	})
}

// TestHTTPDestination sends records to a server that stores each request it answers with 2xx: exactly once with the key
// of each request; in batches, again after a lost answer.
func TestHTTPDestination(t *testing.T) {
	t.Parallel()
	for format, once := range map[string]bool{"single": true, "lines": false} {
		t.Run(format, func(t *testing.T) {
			load.Parallel(t, load.Agent+load.Server)
			kill.RunDestination(t, kill.Destination{
				Plugin: "builtin:http", Once: once, Reread: !once,
				System: func(t *testing.T, dir string) *kill.System {
					a := startAPI(t, dir)
					return &kill.System{
						Addr: a.addr, Server: a, Rotate: a.rotate, Stored: a.stored,
						Settings: func(addr string) map[string]string {
							return map[string]string{"url": "http://" + addr + "/", "auth.token": "${file:" + a.token +
								"}", "timeout": "2s", "body.format": format, "retry.timeout": "1s",
								"sdk.record.format":         "template",
								"sdk.record.format.options": "{{ toJson .Payload.After }}"}
						},
					}
				},
			})
		})
	}
}
