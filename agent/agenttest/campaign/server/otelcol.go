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
	return startOTelCollector(t, exporter, name, "")
}

// StartOTelCollectorTLS is StartOTelCollector for a collector with a certificate of the authority, which requires one
// of its clients.
func StartOTelCollectorTLS(t testing.TB, exporter, name string, authority *network.Authority) *OTelCollector {
	t.Helper()
	dir := Dir(t)
	cert, key := authority.Pair(t)
	for file, text := range map[string]string{"cert": cert, "key": key, "ca": authority.PEM} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return startOTelCollector(t, exporter, name,
		fmt.Sprintf(", tls: {cert_file: %[1]s/cert, key_file: %[1]s/key, client_ca_file: %[1]s/ca}", dir))
}

func startOTelCollector(t testing.TB, exporter, name, encryption string) *OTelCollector {
	t.Helper()
	c := &OTelCollector{GRPC: fmt.Sprintf("127.0.0.1:%d", network.FreePort(t)),
		HTTP: fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))}
	dir := Dir(t)
	file := filepath.Join(dir, "config.yaml")
	pipeline := fmt.Sprintf("{receivers: [otlp], exporters: [%s]}", name)
	config := fmt.Sprintf(`receivers:
  otlp:
    protocols: {grpc: {endpoint: %[1]q%[3]s}, http: {endpoint: %[2]q%[3]s}}
exporters:
  %[4]s
service:
  telemetry: {metrics: {level: none}}
  pipelines: {logs: %[5]s, metrics: %[5]s, traces: %[5]s}
`, c.GRPC, c.HTTP, encryption, exporter, pipeline)
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
