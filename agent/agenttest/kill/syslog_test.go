package kill_test

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/kill"
	"github.com/conduit-agent/conduit/plugins/plugintest/server"
)

// TestSyslogDestination sends to a real daemon over TCP, which has no acknowledgements: what was
// under way when the daemon ends or a connection breaks may be lost.
func TestSyslogDestination(t *testing.T) {
	t.Parallel()
	const unconfirmed = "the protocol has no acknowledgements: what was under way is lost"
	kill.RunDestination(t, kill.Destination{
		Plugin: "builtin:syslog", Unordered: true, // by the daemon, when there is more than one connection
		System: func(t *testing.T, _ string) *kill.System {
			r := server.StartRsyslog(t, "")
			return &kill.System{
				Addr: r.Addr, Server: r,
				Settings: func(addr string) map[string]string {
					return map[string]string{"address": addr, "sdk.record.format": "template", "sdk.record.format.options": "{{ .Payload.After.n }}"}
				},
				Stored: func(context.Context) ([]int, error) { return numbersIn(r.Output) },
			}
		},
		Skip: map[kill.Fault]string{
			kill.ServerKilled: unconfirmed, kill.ServerRestarted: unconfirmed, kill.ConnectionCut: unconfirmed,
			kill.ConnectionRefused: unconfirmed, kill.ConnectionHalfOpen: unconfirmed, kill.Everything: unconfirmed,
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
