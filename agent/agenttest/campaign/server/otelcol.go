package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest/network"
)

// OTelCollector is a running OpenTelemetry Collector, which forwards all requests. Without a queue it answers when the
// receiver has answered.
type OTelCollector struct {
	*Process
	GRPC, HTTP string // addresses of the receivers
}

// StartOTelCollector starts an OpenTelemetry Collector that sends with this exporter, a line of YAML such as
// "otlp_grpc: {endpoint: HOST:PORT}", and this name.
func StartOTelCollector(t testing.TB, exporter, name string) *OTelCollector {
	t.Helper()
	c := &OTelCollector{GRPC: fmt.Sprintf("127.0.0.1:%d", network.FreePort(t)),
		HTTP: fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))}
	dir := Dir(t)
	file := filepath.Join(dir, "config.yaml")
	pipeline := fmt.Sprintf("{receivers: [otlp], exporters: [%s]}", name)
	config := fmt.Sprintf(`receivers:
  otlp:
    protocols: {grpc: {endpoint: %q}, http: {endpoint: %q}}
exporters:
  %s
service:
  telemetry: {metrics: {level: none}}
  pipelines: {logs: %[4]s, metrics: %[4]s, traces: %[4]s}
`, c.GRPC, c.HTTP, exporter, pipeline)
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	c.Process = &Process{Path: goServer(t, "otelcol"), Args: []string{"--config", file}, Dir: dir,
		Ready: func(ctx context.Context) error {
			if err := accepts(ctx, c.GRPC); err != nil {
				return err
			}
			return accepts(ctx, c.HTTP)
		}}
	c.Launch(t)
	return c
}
