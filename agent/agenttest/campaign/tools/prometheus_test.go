package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/agent/telemetry"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/spec"
)

// promClient queries a Prometheus.
type promClient struct{ address string }

// get decodes the data of an answer into v.
func (p promClient) get(ctx context.Context, path string, v any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+path, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body := struct {
		Status, Error string
		Data          any
	}{Data: v}
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil || body.Status != "success" {
		return fmt.Errorf("%s answers %s: %s %v", path, answer.Status, body.Error, err)
	}
	return nil
}

// firing returns the firing alerts, as "name pipeline".
func (p promClient) firing(ctx context.Context) (all []string) {
	var data struct {
		Alerts []struct {
			State  string
			Labels map[string]string
		}
	}
	if p.get(ctx, "/api/v1/alerts", &data) == nil {
		for _, a := range data.Alerts {
			if a.State == "firing" {
				all = append(all, strings.TrimSpace(a.Labels["alertname"]+" "+a.Labels["pipeline_id"]))
			}
		}
	}
	return all
}

// startPrometheus starts a Prometheus that scrapes an agent and evaluates the alert rules without delay.
func startPrometheus(t *testing.T, agent string) promClient {
	t.Helper()
	path, tool := server.Need(t, "prometheus", "prometheus"), server.Need(t, "promtool", "prometheus")
	dir := server.Dir(t)
	rules := telemetry.AlertRules()
	for i := range rules {
		rules[i].For = "0s"
	}
	file := filepath.Join(dir, "conduit.rules.yml")
	config := fmt.Sprintf("global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: "+
		"200ms}\nrule_files: [%s]\n"+
		"scrape_configs: [{job_name: conduit, static_configs: [{targets: ['%s']}]}]\n", file, agent)
	for name, text := range map[string]string{file: string(telemetry.Alerts(rules)),
		filepath.Join(dir, "prometheus.yml"): config} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(tool, "check", "config", "--lint=all",
		filepath.Join(dir, "prometheus.yml")).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
	p := promClient{fmt.Sprintf("127.0.0.1:%d", network.FreePort(t))}
	process := &server.Process{Path: path, Dir: dir, Args: []string{"--config.file=prometheus.yml",
		"--storage.tsdb.path=data", "--web.listen-address=" + p.address},
		Ready: func(ctx context.Context) error { return p.get(ctx, "/api/v1/status/buildinfo", &struct{}{}) }}
	process.Launch(t)
	return p
}

// A Prometheus loads the alert rules and runs every query of the dashboard. The alerts of a degraded pipeline and of a
// nearly full spool fire.
func TestPrometheus(t *testing.T) {
	load.Parallel(t, load.Agent)
	a := agenttest.Start(t, "")
	a.Save("p.yaml", `{version: "2.2", pipelines: [{id: broken, connectors: [
	  {id: src, type: source, plugin: builtin:generator, settings: {format.type: raw, rate: "1"}},
	  {id: dst, type: destination, plugin: "builtin:nothing"}]},
	 {id: works, connectors: [
	  {id: src, type: source, plugin: builtin:generator, settings: {format.type: raw, rate: "100"}},
	  {id: dst, type: destination, plugin: builtin:log, settings: {level: debug}}]},
	 {id: fills, connectors: [
	  {id: src, type: source, plugin: builtin:generator, settings: {format.type: raw, rate: "20000"}},
	  {id: dst, type: destination, plugin: builtin:spool, settings: {path: "`+a.Path("spool")+
		`", limit.bytes: "1000000"}}]}]}`)
	a.WaitPhase("broken", spec.PhaseDegraded, 0)
	a.WaitPhase("works", spec.PhaseRunning, 0)
	p := startPrometheus(t, a.Address())
	// A slow scrape looks like an absence.
	a.Wait("the alerts, and none of another pipeline or of an absent agent", func() bool {
		firing := p.firing(t.Context())
		return slices.Contains(firing, "ConduitPipelineDegraded broken") &&
			slices.Contains(firing, "ConduitSpoolFull") && !slices.ContainsFunc(firing, func(alert string) bool {
			return strings.HasSuffix(alert, " works") || alert == "ConduitAbsent"
		})
	})
	a.Wait("results of the dashboard's queries", func() bool { return results(t, p) >= 8 }) // rates need two scrapes
}

// results counts the queries of the dashboard that have a result.
func results(t *testing.T, p promClient) (found int) {
	t.Helper()
	with := strings.NewReplacer("$instance", ".*", "$pipeline", ".*", "$__rate_interval", "1m")
	for _, panel := range telemetry.Panels() {
		for _, q := range panel.Queries {
			var data struct{ Result []any }
			if err := p.get(t.Context(), "/api/v1/query?query="+url.QueryEscape(with.Replace(q.Expr)),
				&data); err != nil {
				t.Fatalf("%s: %s: %v", panel.Title, q.Expr, err)
			}
			if len(data.Result) > 0 {
				found++
			}
		}
	}
	return found
}
