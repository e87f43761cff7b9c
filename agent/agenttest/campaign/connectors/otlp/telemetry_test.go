package otlp_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/spec"
)

const ordersFile = `version: 2.2
pipelines:
  - id: orders
    status: running
    connectors:
      - {id: in, type: source, plugin: generator, settings: {format.type: raw, rate: 20}}
      - {id: out, type: destination, plugin: file, settings: {path: OUT}}
    processors:
      - {id: mark, plugin: field.set, settings: {field: .Metadata.marked, value: "yes"}}
`

// TestOwnTelemetry sends the telemetry of an agent to a collector that requires certificates, which sends it to the
// source of another agent.
func TestOwnTelemetry(t *testing.T) {
	load.Parallel(t, load.Server+2*load.Agent)
	trusted, stranger := network.NewAuthority(t), network.NewAuthority(t)
	address := fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))
	to := agenttest.Start(t, "")
	to.Save("telemetry.yaml", fmt.Sprintf(`version: 2.2
pipelines:
  - id: telemetry
    status: running
    connectors:
      - {id: in, type: source, plugin: otlp, settings: {addresses: %q}}
      - {id: out, type: destination, plugin: file, settings: {path: %q}}
`, address, to.Path("out")))
	to.WaitPhase("telemetry", spec.PhaseRunning, 1)
	c := server.StartOTelCollectorTLS(t, fmt.Sprintf(`otlp_grpc: {endpoint: "%s", tls: {insecure: true}}`, address),
		"otlp_grpc", trusted)
	for protocol, endpoint := range map[string]string{"grpc": c.GRPC, "http": c.HTTP} {
		sending := func(by *network.Authority) func(*config.Config) {
			cert, key := by.Pair(t)
			return func(s *config.Config) {
				o := &s.Telemetry.OTLP
				o.Endpoint, o.Protocol, o.Attributes = "https://"+endpoint, protocol, "site=by-"+protocol
				o.CAFile = agenttest.SecretFile(t, trusted.PEM)
				o.CertFile, o.KeyFile = agenttest.SecretFile(t, cert), agenttest.SecretFile(t, key)
				s.Telemetry.Signals, s.Telemetry.Traces.OneIn = "metrics,logs,traces", 1
				s.Telemetry.Metrics.Interval = time.Second
			}
		}
		a := agenttest.Start(t, "", sending(trusted))
		a.Save("orders.yaml", strings.ReplaceAll(ordersFile, "OUT", a.Path("out")))
		to.Wait("every signal over "+protocol, func() bool {
			found := map[string]bool{}
			for _, line := range agenttest.CompleteLines(to.Path("out")) {
				for _, text := range []string{`"name":"batch orders"`, `"name":"read orders:in"`,
					`"name":"process orders"`, `"name":"write orders:out"`, `"name":"commit"`, `"body":"agent started"`,
					`"name":"conduit_connector_records_total"`} {
					if strings.Contains(line, `"site":"by-`+protocol) && strings.Contains(line, text) {
						found[text] = true
					}
				}
			}
			return len(found) == 7
		})
		a.Stop()
		if strings.Contains(a.Log(), `"level":"WARN"`) {
			t.Errorf("%s: there are warnings:\n%s", protocol, a.Log())
		}
		refused := agenttest.Start(t, "", sending(stranger))
		refused.Save("orders.yaml", strings.ReplaceAll(ordersFile, "OUT", refused.Path("out")))
		refused.Wait("a warning", func() bool {
			return strings.Contains(refused.Log(), "cannot send telemetry to the collector") &&
				strings.Contains(refused.Log(), "certificate")
		})
		refused.Stop()
	}
}
