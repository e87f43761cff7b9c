package e2e_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/plugins/builtin"
)

// destinations are the settings of each kind of destination with an external system, at an address or below a path that
// is a file.
func destinations(addr, path string) map[string]string {
	return map[string]string{
		"datadog":       `url: "http://` + addr + `", auth.apiKey: k, timeout: 200ms`,
		"elasticsearch": `url: "http://` + addr + `", index: t, timeout: 200ms`,
		"influxdb":      `url: "http://` + addr + `", org: o, bucket: b, measurement: m, timeout: 200ms`,
		"loki":          `url: "http://` + addr + `", labels.job: j, timeout: 200ms`,
		"prometheus":    `url: "http://` + addr + `", name: m, value: "1", timeout: 200ms`,
		"splunk":        `url: "http://` + addr + `", auth.hecToken: t, timeout: 200ms`,
		"http":          `url: "http://` + addr + `/", timeout: 200ms`,
		"redis":         `url: "redis://` + addr + `/0", key: k, timeout: 200ms`,
		"kafka":         `servers: "` + addr + `", topic: t`,
		"nats":          `url: "nats://` + addr + `", subject: s`,
		"mqtt":          `url: "mqtt://` + addr + `", topic: t, timeout: 200ms`,
		"otlp":          `url: "http://` + addr + `", timeout: 200ms`,
		"socket":        `address: "tcp://` + addr + `"`,
		"syslog":        `address: "` + addr + `"`,
		"websocket":     `url: "ws://` + addr + `", timeout: 200ms`,
		"postgres":      `url: "postgres://u:p@` + addr + `/db?sslmode=disable", table: t`,
		"mysql":         `address: "` + addr + `", database: d, user: u, table: t`,
		"s3": `aws.bucket: b, aws.region: r, format: json, aws.endpoint: "http://` + addr +
			`", aws.accessKeyId: a, aws.secretAccessKey: s`,
		"file":   `path: "` + path + `/out"`,
		"sqlite": `path: "` + path + `/out.db", table: t`,
		"spool":  `path: "` + path + `/spool"`,
	}
}

// sources are the settings of the sources with an external system.
func sources(addr, path string) map[string]string {
	return map[string]string{
		"http":      `url: "http://` + addr + `/", timeout: 200ms`,
		"redis":     `url: "redis://` + addr + `/0", key: k, timeout: 200ms`,
		"kafka":     `servers: "` + addr + `", topics: t`,
		"nats":      `url: "nats://` + addr + `", stream: s, timeout: 200ms`,
		"mqtt":      `url: "mqtt://` + addr + `", topics: t, timeout: 200ms`,
		"socket":    `address: "tcp://` + addr + `", mode: connect`,
		"websocket": `url: "ws://` + addr + `", timeout: 200ms`,
		"postgres":  `url: "postgres://u:p@` + addr + `/db?sslmode=disable", tables: t`,
		"mysql":     `address: "` + addr + `", database: d, user: u, tables: t`,
		"s3": `aws.bucket: b, aws.region: r, aws.endpoint: "http://` + addr +
			`", aws.accessKeyId: a, aws.secretAccessKey: s`,
		"file":   `path: "` + path + `/in"`,
		"sqlite": `path: "` + path + `/in.db", tables: t`,
	}
}

// elsewhere are the connectors without an external system, and exec, whose commands the agent does not know.
var elsewhere = map[string]bool{"log": true, "generator": true, "exec": true}

// local are the connectors whose system is a file, which exists or not.
var local = map[string]bool{"file": true, "sqlite": true, "spool": true}

// silentPort returns an address that accepts connections and never answers.
func silentPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		var open []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				for _, c := range open {
					c.Close()
				}
				return
			}
			open = append(open, c)
		}
	}()
	return l.Addr().String()
}

// The agent detects and names every kind of connector that delivers nothing because its system is unreachable or
// silent.
func TestNoConnectorFailsInSilence(t *testing.T) {
	t.Parallel()
	dir := agenttest.NewDir(t)
	blocked := filepath.Join(dir, "blocked")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var file strings.Builder
	file.WriteString("version: \"2.2\"\npipelines:\n")
	blame := map[string]string{} // the stage, by pipeline
	add := func(id, source, destination, stage string) {
		fmt.Fprintf(&file, "  - id: %s\n    connectors:\n      - {id: in, type: source, %s}\n      - {id: out, type: "+
			"destination, %s}\n", id, source, destination)
		blame[id] = id + ":" + stage
	}
	const ticks = `plugin: generator, settings: {format.type: structured, format.options.name: string, rate: "20"}`
	for how, addr := range map[string]string{"closed": agenttest.ClosedPort(t), "silent": silentPort(t)} {
		for plugin, settings := range destinations(addr, blocked) {
			// Such a server never answers: a silent one has the records.
			if how == "closed" || !local[plugin] && plugin != "socket" && plugin != "syslog" {
				add("to-"+plugin+"-"+how, ticks, fmt.Sprintf("plugin: %s, settings: {%s}", plugin, settings), "out")
			}
		}
		for plugin, settings := range sources(addr, blocked) {
			if !local[plugin] && plugin != "socket" || how == "closed" { // a silent sender has nothing to send
				add("from-"+plugin+"-"+how, fmt.Sprintf("plugin: %s, settings: {%s}", plugin, settings), "plugin: log",
					"in")
			}
		}
	}
	for _, c := range builtin.All() {
		if _, ok := destinations("", "")[c.Name]; c.NewDestination != nil && !ok && !elsewhere[c.Name] {
			t.Errorf("destination %s is not tried", c.Name)
		}
	}
	a := agenttest.StartWired(t, dir, agenttest.Hasty, func(c *config.Config) {
		c.Shutdown.Timeout = 100 * time.Millisecond
	})
	a.Save("all.yaml", file.String())
	for id, stage := range blame {
		a.Wait("a stall of "+stage, func() bool {
			s := a.State(id).Stall
			return s != nil && s.Stage == stage && !s.Since.IsZero() && strings.Contains(s.Message, stage)
		})
		if s := a.State(id); strings.Contains(s.Error, "is not a setting") || strings.Contains(s.Error, "is required") {
			t.Errorf("%s is not tried, its settings are wrong: %s", stage, s.Error)
		}
	}
}
