package server

import (
	"context"
	"fmt"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// NATS is a running NATS server with JetStream, which keeps its streams on disk.
type NATS struct {
	*Process
	Addr string // host and port
}

// URL returns the URL of the server.
func (n *NATS) URL() string { return "nats://" + n.Addr }

// StartNATS starts the given number of NATS servers with JetStream, as one cluster if there are several. Each of the
// lines is added to the configuration of all. Clients only learn the server addresses that they are given.
func StartNATS(t testing.TB, count int, lines ...string) []*NATS {
	t.Helper()
	path := goServer(t, "natsd")
	servers, routes := make([]*NATS, count), make([]string, count)
	for i := range routes {
		routes[i] = fmt.Sprintf("nats-route://127.0.0.1:%d", network.FreePort(t))
	}
	for i := range servers {
		n := &NATS{Addr: fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))}
		dir := Dir(t)
		config := []string{
			fmt.Sprintf("server_name: n%d", i), "listen: " + n.Addr,
			fmt.Sprintf("jetstream: {store_dir: %q, sync_interval: always, max_mem: 64MB, max_file: 1GB}",
				filepath.Join(dir, "js")),
		}
		if count > 1 {
			// Without no_advertise, clients bypass their proxies.
			config = append(config, fmt.Sprintf("cluster: {name: test, listen: %q, routes: [%s], no_advertise: true}",
				strings.TrimPrefix(routes[i], "nats-route://"), strings.Join(routes, ", ")))
		}
		file := filepath.Join(dir, "nats.conf")
		if err := os.WriteFile(file, []byte(strings.Join(append(config, lines...), "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
		n.Process = &Process{Path: path, Args: []string{"-c", file}, Dir: dir, Ready: func(ctx context.Context) error {
			return accepts(ctx, n.Addr)
		}}
		servers[i] = n
	}
	for _, n := range servers {
		n.Launch(t)
	}
	return servers
}
