package otlp_test

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/telemetry"
	"github.com/conduit-agent/conduit/agent/telemetry/otlp"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/spec"
)

const orders = `version: 2.2
pipelines:
  - id: orders
    status: running
    connectors:
      - id: in
        type: source
        plugin: generator
        settings:
          format.type: structured
          format.options.id: int
          recordCount: "30"
      - id: out
        type: destination
        plugin: file
        settings:
          path: OUT
    processors:
      - id: mark
        plugin: field.set
        settings:
          field: .Metadata.marked
          value: "yes"
`

// sending returns a change of settings that sends signals to a collector.
func sending(endpoint, protocol, signals string) func(*config.Config) {
	return func(c *config.Config) {
		c.Telemetry.OTLP.Endpoint, c.Telemetry.OTLP.Protocol, c.Telemetry.Signals = endpoint, protocol, signals
		c.Telemetry.OTLP.Headers, c.Telemetry.OTLP.Attributes = "X-Test=edge", "site=berlin"
		c.Telemetry.Traces.OneIn, c.Telemetry.Metrics.Interval = 1, time.Second
	}
}

func TestAgentSendsEverySignal(t *testing.T) {
	defer otlp.Hasten(time.Minute)()
	for _, protocol := range []string{"http", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			c, endpoint, overGRPC := newCollector(t)
			if protocol == "grpc" {
				endpoint = overGRPC
			}
			a := agenttest.Start(t, "", sending(endpoint, protocol, "metrics,logs,traces"))
			a.Save("orders.yaml", strings.ReplaceAll(orders, "OUT", a.Path("out")))
			a.Wait("traces of the records", func() bool { return len(c.spansNamed("write orders:out")) > 0 })
			a.Wait("metrics of the pipeline", func() bool { return c.hasMetric(telemetry.Records) })
			a.Wait("the log", func() bool { return strings.Contains(c.logged(), "INFO agent started component=agent") })
			a.Stop()
			roots := map[string]bool{}
			for _, s := range c.spansNamed("batch orders") {
				roots[hex.EncodeToString(s.GetSpanId())] = true
			}
			for _, name := range []string{"read orders:in", "process orders", "write orders:out", "commit"} {
				all := c.spansNamed(name)
				if len(all) < len(roots) || len(roots) == 0 {
					t.Errorf("%d spans %q of %d batches", len(all), name, len(roots))
				}
				for _, s := range all {
					if !roots[hex.EncodeToString(s.GetParentSpanId())] {
						t.Errorf("%q is no child of a batch", name)
					}
				}
			}
			if !c.hasMetric("go_goroutines") || !c.hasMetric(telemetry.Exported) {
				t.Error("metrics of the process or of the exporter are missing")
			}
			c.with(func() {
				if attribute(c.resource.GetAttributes(), "site") != "berlin" {
					t.Errorf("the resource is %v", c.resource)
				}
				for _, h := range c.headers {
					if h != "edge" {
						t.Errorf("a request has the header %q", h)
					}
				}
				if len(c.headers) != len(c.requests) {
					t.Errorf("%d of %d requests have the header", len(c.headers), len(c.requests))
				}
			})
			if strings.Contains(a.Log(), `"level":"WARN"`) {
				t.Error("there are warnings")
			}
		})
	}
}

// An agent with the source otlp is a collector, too.
func TestAgentSendsToAnAgent(t *testing.T) {
	defer otlp.Hasten(time.Minute)()
	address := fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))
	to := agenttest.Start(t, "")
	to.Save("telemetry.yaml", fmt.Sprintf(`version: 2.2
pipelines:
  - id: telemetry
    status: running
    connectors:
      - id: in
        type: source
        plugin: otlp
        settings:
          addresses: %s
      - id: out
        type: destination
        plugin: file
        settings:
          path: %s
`, address, to.Path("out")))
	to.WaitPhase("telemetry", spec.PhaseRunning, 1)
	a := agenttest.Start(t, "", sending("http://"+address, "grpc", "metrics,logs,traces"))
	a.Save("orders.yaml", strings.ReplaceAll(orders, "OUT", a.Path("out")))
	to.Wait("every signal", func() bool {
		text := strings.Join(agenttest.CompleteLines(to.Path("out")), "\n")
		return strings.Contains(text, `"name":"batch orders"`) && strings.Contains(text, `"body":"agent started"`) &&
			strings.Contains(text, `"name":"conduit_connector_records_total"`)
	})
}

func TestSignalsThatAreOff(t *testing.T) {
	defer otlp.Hasten(time.Minute)()
	c, endpoint, _ := newCollector(t)
	e, _ := exporting(t, settings(endpoint, "metrics"))
	if e.Tracer() != nil || e.Handler() != nil {
		t.Error("there is a tracer, or a handler, that nothing uses")
	}
	for signals, want := range map[string]string{"logs": "logs", "metrics": "metrics", "": ""} {
		a := agenttest.Start(t, "", sending(endpoint, "http", signals))
		a.Save("orders.yaml", strings.ReplaceAll(orders, "OUT", a.Path("out")))
		a.Wait("the records", func() bool { return agenttest.LineCount(a.Path("out")) == 30 })
		a.Stop()
		c.with(func() {
			for _, got := range c.requests {
				if got != want {
					t.Errorf("with the signals %q, %s are sent", signals, got)
				}
			}
			if want != "" && len(c.requests) == 0 {
				t.Errorf("no %s are sent", want)
			}
			c.requests = nil
		})
		if content := agenttest.CompleteLines(a.Path("out")); strings.Contains(strings.Join(content, ""), "traceparent") {
			t.Error("without traces, records have trace contexts")
		}
	}
}

func TestAgentWithoutACollector(t *testing.T) {
	defer otlp.Hasten(300 * time.Millisecond)()
	c, _, _ := newCollector(t)
	address := agenttest.ClosedPort(t)
	a := agenttest.Start(t, "", sending("http://"+address, "grpc", "metrics,logs,traces"))
	a.Save("orders.yaml", strings.ReplaceAll(orders, "OUT", a.Path("out")))
	a.WaitPhase("orders", spec.PhaseRunning, 1)
	a.Wait("the records", func() bool { return agenttest.LineCount(a.Path("out")) == 30 })
	dropped := func() map[string]uint64 {
		all := map[string]uint64{}
		a.Exporter().Counts(func(signal string, _, dropped uint64) { all[signal] = dropped })
		return all
	}
	a.Wait("telemetry that is dropped", func() bool {
		all := dropped()
		return all["traces"] > 0 && all["logs"] > 0 && all["metrics"] > 1
	})
	const warning = "cannot send telemetry to the collector"
	if n := strings.Count(a.Log(), warning); n != 3 {
		t.Errorf("%d warnings, want one for each signal", n)
	}
	c.serveGRPC(address)
	a.Wait("the collector to be used again", func() bool {
		a.Save("orders.yaml", strings.ReplaceAll(orders, "OUT", a.Path("out"))+"# "+time.Now().String())
		return c.hasMetric(telemetry.Exported) && strings.Contains(a.Log(), "the collector accepts telemetry again")
	})
	if n := strings.Count(a.Log(), warning); n != 3 {
		t.Errorf("%d warnings, want one for each signal", n)
	}
}

// Secrets are redacted in the log and in sent log records.
func TestSecretsAreNotSent(t *testing.T) {
	defer otlp.Hasten(time.Minute)()
	c, endpoint, _ := newCollector(t)
	const secret = "correct-horse-battery-staple"
	t.Setenv("TELEMETRY_TEST_SECRET", secret)
	a := agenttest.Start(t, "", sending(endpoint, "http", "logs,traces"))
	a.Save("orders.yaml", strings.ReplaceAll(orders, "OUT", a.Path("none")+"/${TELEMETRY_TEST_SECRET}/out"))
	a.Wait("the failure in the log", func() bool { return strings.Contains(c.logged(), "${TELEMETRY_TEST_SECRET}") })
	a.Stop()
	if strings.Contains(c.logged(), secret) || strings.Contains(c.logged(), url.PathEscape(secret)) {
		t.Errorf("the log contains the secret:\n%s", c.logged())
	}
}

// Variables of the SDK change nothing: all settings are those of the agent.
func TestVariablesOfTheSDK(t *testing.T) {
	for name, value := range map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_HEADERS": "X-Test=theirs",
		"OTEL_EXPORTER_OTLP_CERTIFICATE": "/none", "OTEL_EXPORTER_OTLP_TIMEOUT": "1", "OTEL_TRACES_SAMPLER": "always_off",
		"OTEL_SERVICE_NAME": "theirs", "OTEL_SPAN_LINK_COUNT_LIMIT": "0",
		"OTEL_EXPORTER_OTLP_COMPRESSION": "none"} {
		t.Setenv(name, value)
	}
	c, endpoint, overGRPC := newCollector(t)
	for protocol, endpoint := range map[string]string{"http": endpoint, "grpc": overGRPC} {
		s := settings(endpoint, "traces")
		s.OTLP.Protocol = protocol
		e, send := exporting(t, s)
		e.Tracer().Start(read(batchOf(sampled))).End(nil)
		send()
		roots := c.spansNamed("batch")
		if len(roots) != 1 || len(roots[0].GetLinks()) != 1 || strings.Join(c.headers, "") != "" ||
			attribute(c.resource.GetAttributes(), "service.name") != "conduit" {
			t.Errorf("%s: arrived with the headers %q from %v: %v", protocol, c.headers, c.resource, roots)
		}
		c.with(func() { c.spans = nil })
	}
}
