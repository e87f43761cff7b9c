package e2e_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/spec"
)

// unreachable are destinations whose system is at %s.
var unreachable = map[string]string{
	"datadog":       `url: "http://%s", auth.apiKey: k, retry.timeout: 10ms`,
	"elasticsearch": `url: "http://%s", index: t, retry.timeout: 10ms`,
	"influxdb":      `url: "http://%s", org: o, bucket: b, measurement: m, retry.timeout: 10ms`,
	"loki":          `url: "http://%s", labels.job: j, retry.timeout: 10ms`,
	"prometheus":    `url: "http://%s", name: m, value: "1", retry.timeout: 10ms`,
	"splunk":        `url: "http://%s", auth.hecToken: t, retry.timeout: 10ms`,
	"http":          `url: "http://%s/", body.format: lines, retry.timeout: 10ms`,
	"kafka":         `servers: "%s", topic: t`,
	"mqtt":          `url: "mqtt://%s", topic: t, retry.timeout: 10ms`,
	"mysql":         `address: "%s", database: d, user: u, table: t`,
	"nats":          `url: "nats://%s", subject: s, retry.timeout: 10ms`,
	"otlp":          `url: "http://%s", retry.timeout: 10ms`,
	"postgres":      `url: "postgres://u:p@%s/d", table: t`,
	"redis":         `url: "redis://%s/0", key: k, retry.timeout: 10ms`,
	"s3": `aws.bucket: b, aws.region: r, format: json, aws.endpoint: "http://%s", aws.accessKeyId: a, ` +
		`aws.secretAccessKey: s, retry.timeout: 10ms`,
	"socket":    `address: "tcp://%s", retry.timeout: 10ms`,
	"syslog":    `address: "%s", protocol: tcp, retry.timeout: 10ms`,
	"websocket": `url: "ws://%s", retry.timeout: 10ms`,
}

// A network outage makes no pipeline degraded, whatever its connectors: each is retried, with a few lines in the log
// per attempt. When the network is back all lines arrive, without a restart.
func TestNoNetwork(t *testing.T) {
	t.Parallel()
	sink, arrived := newLineSink(t)
	network, elsewhere := network.NewProxy(t, strings.TrimPrefix(sink.URL, "http://")), network.NewProxy(t, "")
	network.Refuse(true)
	elsewhere.Refuse(true)
	a := agenttest.Start(t, "", func(c *config.Config) { c.Pipelines.ErrorRecovery.MaxDelay = 100 * time.Millisecond })
	var input strings.Builder
	for n := range 100 {
		fmt.Fprintf(&input, "line %d\n", n)
	}
	if err := os.WriteFile(a.Path("in.txt"), []byte(input.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for plugin, settings := range unreachable {
		address := elsewhere.Addr()
		switch plugin {
		case "http": // this network leads to the sink
			address = network.Addr()
		case "socket", "syslog": // they have no acknowledgements: they fail only without a listener
			address = "127.0.0.1:1"
		}
		a.Save(plugin+".yaml", fmt.Sprintf(`version: "2.2"
pipelines:
  - id: to-%[1]s
    connectors:
      - {id: in, type: source, plugin: file, settings: {path: "%[2]s"}}
      - {id: out, type: destination, plugin: %[1]s, settings: {sdk.record.format: template,
         sdk.record.format.options: '{{ printf "%%s" .Payload.After }}', %[3]s}}
`, plugin, a.Path("in.txt"), fmt.Sprintf(settings, address)))
	}
	for plugin := range unreachable {
		id := "to-" + plugin
		a.Wait(id+" to fail again and again", func() bool { return a.State(id).Failures >= 5 })
		s, lines := a.State(id), strings.Count(a.Log(), `"`+id)
		if s.Phase == spec.PhaseDegraded {
			t.Errorf("%s is %s: %s", id, s.Phase, s.Error)
		}
		if most := 12 * (s.Failures + 1); lines > most {
			t.Errorf("%d lines of the log are about %s and its %d failures, want at most %d", lines, id, s.Failures,
				most)
		}
	}
	if n := len(arrived()); n > 0 {
		t.Fatalf("%d lines arrived without a network", n)
	}
	network.Heal()
	a.Wait("all lines", func() bool { return len(arrived()) == 100 })
	a.WaitPhase("to-http", spec.PhaseRunning, 0)
}

// Sources without a network are as patient: whether they are restarted or reconnect by themselves, the log has few
// lines. The source whose network is back reads on without a restart. A campaign limits how often they connect.
func TestSourcesWithoutANetwork(t *testing.T) {
	t.Parallel()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `["line"]`)
	}))
	t.Cleanup(page.Close)
	network := network.NewProxy(t, strings.TrimPrefix(page.URL, "http://"))
	network.Refuse(true)
	a := agenttest.Start(t, "", func(c *config.Config) { c.Pipelines.ErrorRecovery.MaxDelay = 200 * time.Millisecond })
	attempts := map[string]func() int{}
	declare := func(id, plugin, address, settings string) {
		a.Save(id+".yaml", fmt.Sprintf(`version: "2.2"
pipelines:
  - id: %[1]s
    connectors:
      - {id: in, type: source, plugin: %[2]s, settings: {%[3]s}}
      - {id: out, type: destination, plugin: file, settings: {path: "%[4]s"}}
`, id, plugin, fmt.Sprintf(settings, address), a.Path(id+".txt")))
	}
	for plugin, settings := range agenttest.UnreachableSources {
		var address string
		address, attempts["from-"+plugin] = agenttest.EndingAll(t)
		declare("from-"+plugin, plugin, address, settings)
	}
	declare("back", "http", network.Addr(), agenttest.UnreachableSources["http"])
	for id, count := range attempts {
		a.Wait(id+" to try again and again", func() bool { return count() >= 4 })
	}
	for id := range attempts {
		s, lines := a.State(id), strings.Count(a.Log(), `"`+id)
		if s.Phase == spec.PhaseDegraded {
			t.Errorf("%s is %s: %s", id, s.Phase, s.Error)
		}
		if most := 12 * (s.Failures + 2); lines > most {
			t.Errorf("%d lines of the log are about %s and its %d failures, want at most %d", lines, id, s.Failures,
				most)
		}
	}
	network.Heal()
	a.Wait("a record when the network is back", func() bool {
		content, err := os.ReadFile(a.Path("back.txt"))
		return err == nil && len(content) > 0
	})
}

// newLineSink returns a server that accepts lines, and a function that returns how often each arrived.
func newLineSink(t *testing.T) (*httptest.Server, func() map[string]int) {
	t.Helper()
	var mu sync.Mutex
	all := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		for line := range strings.Lines(string(body)) {
			if strings.HasPrefix(line, "line ") {
				all[strings.TrimSpace(line)]++
			}
		}
	}))
	t.Cleanup(s.Close)
	return s, func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(all)
	}
}
