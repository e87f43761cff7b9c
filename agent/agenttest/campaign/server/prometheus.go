package server

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest/network"
)

// Prometheus is a running server of Prometheus that receives remote write.
type Prometheus struct {
	*Process
	Addr string // host and port
}

// StartPrometheus starts Prometheus. config returns its configuration in YAML for a server at an address.
func StartPrometheus(t testing.TB, config func(addr string) string) *Prometheus {
	t.Helper()
	path, dir := Need(t, "prometheus", "prometheus"), Dir(t)
	p := &Prometheus{Addr: fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))}
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config(p.Addr)), 0o644); err != nil {
		t.Fatal(err)
	}
	p.Process = &Process{Path: path, Dir: dir, Args: []string{"--config.file=" + file, "--storage.tsdb.path=data",
		"--web.listen-address=" + p.Addr, "--web.enable-remote-write-receiver", "--log.level=warn"},
		Ready: get("http://" + p.Addr + "/-/ready")}
	p.Launch(t)
	return p
}
