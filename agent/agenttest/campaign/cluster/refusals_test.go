package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// TestHeavyRefusal runs a pipeline that refuses every second of many lines. It measures the time until every refused
// line is a dead letter, every other line is written, and the position is saved: on a single agent and in a cluster.
func TestHeavyRefusal(t *testing.T) {
	load.Parallel(t, 3*load.Server+load.Agent) // the subtests run one after the other
	nats := func(servers int) func(t *testing.T) string {
		return func(t *testing.T) string { return urlsOf(server.StartNATS(t, servers)) }
	}
	for _, in := range []struct {
		name  string
		store func(t *testing.T) string
	}{
		{"alone", func(*testing.T) string { return "" }},
		{"one NATS server", nats(1)},
		{"three NATS servers", nats(3)},
		{"PostgreSQL", func(t *testing.T) string { return postgresURL(server.StartPostgres(t, "", "fsync=on").Addr) }},
		{"alone, once more", func(*testing.T) string { return "" }},
	} {
		t.Run(in.name, func(t *testing.T) {
			r := &refusing{dir: t.TempDir()}
			if err := os.Mkdir(filepath.Join(r.dir, "pipelines"), 0o755); err != nil {
				t.Fatal(err)
			}
			url := in.store(t)
			m := newMember(t, "m", filepath.Join(r.dir, "pipelines"), url, ttl)
			m.config.DeadLetters.Count, m.config.DeadLetters.Bytes = 0, 0
			if url == "" {
				m.config.Cluster = config.Cluster{}
			}
			m.start()
			if url != "" {
				m.awaitLog("reason=Joined")
			}
			lines := *refusals
			r.feed(t, lines)
			read, err := os.Stat(r.in())
			if err != nil {
				t.Fatal(err)
			}
			r.declare(t, false)
			var began time.Time
			wait.For(t, "the pipeline to run", func() bool {
				began = time.Now()
				return strings.Contains(m.log.String(), `msg="pipeline runs"`)
			})
			answer := ""
			wait.For(t, "all lines to be refused or written", func() (saved bool) {
				saved, answer = m.saved("p:in", read.Size())
				return saved
			}, func() string { return answer })
			took := time.Since(began)
			var count int64
			wait.For(t, "all dead letters to be counted", func() bool {
				count = decoded[spec.DeadLetterPage](m, "GET", lettersPath+"?limit=1").Totals.Count
				return count == int64(lines/2)
			}, func() string { return fmt.Sprintf("there are %d, want %d", count, lines/2) })
			t.Logf("%d of %d lines refused in %v: %.0f dead letters a second", lines/2, lines,
				took.Round(time.Millisecond), float64(lines/2)/took.Seconds())
		})
	}
}
