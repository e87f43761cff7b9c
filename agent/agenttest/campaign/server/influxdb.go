package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest/network"
)

// InfluxDB is a running server of InfluxDB 1, without users.
type InfluxDB struct {
	*Process
	Addr string // host and port
}

// StartInfluxDB starts InfluxDB.
func StartInfluxDB(t testing.TB) *InfluxDB {
	t.Helper()
	path := Need(t, "influxd", "influxdb", "/usr/bin")
	dir := Dir(t)
	s := &InfluxDB{Addr: fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))}
	config := fmt.Sprintf("reporting-disabled = true\nbind-address = \"127.0.0.1:%d\"\n[meta]\ndir = %q\n[data]\n"+
		"dir = %q\nwal-dir = %q\n[http]\nbind-address = %q\nlog-enabled = false\n", network.FreePort(t),
		filepath.Join(dir, "meta"), filepath.Join(dir, "data"), filepath.Join(dir, "wal"), s.Addr)
	file := filepath.Join(dir, "influxdb.conf")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	s.Process = &Process{Path: path, Args: []string{"-config", file}, Dir: dir, Ready: get("http://" + s.Addr + "/ping")}
	s.Launch(t)
	return s
}

// VictoriaMetrics is a running server of VictoriaMetrics.
type VictoriaMetrics struct {
	*Process
	Addr string // host and port
}

// StartVictoriaMetrics starts VictoriaMetrics.
func StartVictoriaMetrics(t testing.TB) *VictoriaMetrics {
	t.Helper()
	path := Need(t, "victoria-metrics", "victoria-metrics", "/usr/bin")
	v := &VictoriaMetrics{Addr: fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))}
	v.Process = &Process{Path: path, Dir: Dir(t), Args: []string{"-httpListenAddr=" + v.Addr, "-storageDataPath=data",
		"-retentionPeriod=100y", "-memory.allowedBytes=64MB"}, Ready: get("http://" + v.Addr + "/health")}
	v.Launch(t)
	return v
}

// get returns a function that returns nil when a server responds at url, and not that it is starting.
func get(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		if resp.StatusCode == http.StatusServiceUnavailable {
			err = fmt.Errorf("%s responds with %s", url, resp.Status)
		}
		return errors.Join(err, resp.Body.Close())
	}
}
