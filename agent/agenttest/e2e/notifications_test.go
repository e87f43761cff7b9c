package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/notification"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/spec"
)

// receiver is the system that an agent notifies.
type receiver struct {
	mu  sync.Mutex
	all []notification.Notification
}

func (r *receiver) ServeHTTP(_ http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	var n notification.Notification
	if err := json.Unmarshal(body, &n); err == nil &&
		strings.HasPrefix(request.Header.Get("webhook-signature"), "v1,") {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all = append(r.all, n)
	}
}

// received returns the received notifications of a kind.
func (r *receiver) received(kind notification.Kind) (found []notification.Notification) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.all {
		if n.Kind == kind {
			found = append(found, n)
		}
	}
	return found
}

// Setting the variable in the test would prevent it from running in parallel with others.
func init() { _ = os.Setenv("DOWNSTREAM_PASSWORD", "hunter2hunter2") }

// TestNotifications runs an agent that notifies a webhook and a command of pipeline events.
func TestNotifications(t *testing.T) {
	t.Parallel()
	r := &receiver{}
	server := httptest.NewServer(r)
	defer server.Close()
	dir := agenttest.NewDir(t)
	const secret = "a-secret-that-must-not-be-shown"
	if err := os.WriteFile(dir+"/secret", []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := agenttest.StartWired(t, dir, agenttest.Attentive, func(c *config.Config) {
		c.Notify.Webhook.URL, c.Notify.Webhook.SecretFile = server.URL+"/in/PATHT0KEN", dir+"/secret"
		line, _ := json.Marshal([]string{"/bin/sh", "-c", "cat >>" + dir + "/commanded; echo >>" + dir + "/commanded"})
		c.Notify.Command.Run = string(line)
	})
	a.Save("degraded.yaml", `{version: "2.2", pipelines: [{id: degraded, connectors: [
	  {id: src, type: source, plugin: builtin:generator, settings: {format.type: raw, rate: "1"}},
	  {id: dst, type: destination, plugin: "builtin:nothing", settings: {password: "${DOWNSTREAM_PASSWORD}"}}]}]}`)
	a.Save("broken.yaml", "version: \"2.2\"\npipelines:\n- id: [")
	a.Save("silent.yaml", `{version: "2.2", pipelines: [{id: silent, max-silence: 200ms, connectors: [
	  {id: src, type: source, plugin: builtin:generator, settings: {format.type: raw, recordCount: "1"}},
	  {id: dst, type: destination, plugin: builtin:log}]}]}`)
	a.WaitPhase("degraded", spec.PhaseDegraded, 0)
	for kind, about := range map[notification.Kind]string{notification.Degraded: "degraded",
		notification.FileProblem: "broken.yaml", notification.Silent: "silent"} {
		a.Wait("a notification "+string(kind), func() bool { return len(r.received(kind)) > 0 })
		if n := r.received(kind); len(n) != 1 || n[0].Pipeline+n[0].File != about || n[0].Message == "" {
			t.Errorf("%s: received %+v", kind, n)
		}
	}
	asked := &client.Client{URL: "http://" + a.Address()}
	a.Wait("a silent source in the status", func() bool {
		status, err := asked.Status(t.Context(), "silent")
		if err != nil {
			t.Fatal(err)
		}
		return status.State.Stall.Silent() && status.State.Stall.Stage == "silent:src"
	})
	if n := r.received(notification.NotDelivering); len(n) > 0 {
		t.Errorf("a silent pipeline is notified of twice: %+v", n)
	}
	results, err := asked.TestNotifications(t.Context())
	if err != nil || len(results) != 2 || !results[0].Delivered || !results[1].Delivered {
		t.Errorf("notifications that were asked for: %+v, %v", results, err)
	}
	if len(r.received(notification.Test)) != 1 {
		t.Error("a notification that was asked for is not received")
	}
	a.Wait("the command", func() bool {
		text, _ := os.ReadFile(dir + "/commanded")
		return strings.Count(string(text), "\n") >= 4
	})
	metrics := agenttest.MetricsOf(a)
	for _, want := range []string{`conduit_pipeline_silent{pipeline_id="silent"} 1`,
		`conduit_pipeline_not_delivering_seconds{pipeline_id="silent",pipeline_name="silent"} 0`,
		`conduit_source_last_record_timestamp_seconds{component_id="silent:src",`,
		`conduit_notifications_total{result="sent",target="webhook http://`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	shown, _ := json.Marshal(r.all)
	for _, text := range []string{a.Log(), string(shown), settingsShown(t, a)} {
		for _, hidden := range []string{secret, "PATHT0KEN", "hunter2hunter2"} {
			if strings.Contains(text, hidden) {
				t.Errorf("%s shows in %.2000s", hidden, text)
			}
		}
	}
}

// settingsShown returns the agent and its settings as the API shows them.
func settingsShown(t *testing.T, a *agenttest.Agent) string {
	t.Helper()
	answer, err := http.Get("http://" + a.Address() + "/v1/agent")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	settings, err := io.ReadAll(answer.Body)
	if err != nil || !strings.Contains(string(settings), "notify.webhook.url") {
		t.Errorf("settings are not shown: %v %s", err, settings)
	}
	return string(settings)
}
