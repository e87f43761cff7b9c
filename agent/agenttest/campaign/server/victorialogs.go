package server

import (
	"fmt"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest/network"
)

// VictoriaLogs is a running server of VictoriaLogs, which receives logs with the protocols of other systems.
type VictoriaLogs struct {
	*Process
	Addr string // host and port
}

// StartVictoriaLogs builds VictoriaLogs from a separate module, if necessary, and starts it.
func StartVictoriaLogs(t testing.TB) *VictoriaLogs {
	t.Helper()
	path := goProgram(t, "victoria-logs", "github.com/VictoriaMetrics/VictoriaLogs/app/victoria-logs")
	v := &VictoriaLogs{Addr: fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))}
	v.Process = &Process{Path: path, Dir: Dir(t), Args: []string{"-httpListenAddr=" + v.Addr, "-storageDataPath=data",
		"-retentionPeriod=100y", "-memory.allowedBytes=64MB"}, Ready: get("http://" + v.Addr + "/health")}
	v.Launch(t)
	return v
}
