package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/spec"
)

// secret is the value of references.
const secret = "canary-51c0a7"

// Setting the variables in the tests would prevent them from running in parallel with others.
func init() {
	_, _, _ = os.Setenv("LEAK", secret), os.Setenv("LEAK_PATH", "/nonexistent/"+secret), os.Setenv("LEAK_SHORT", "x")
}

// Values of references appear nowhere, whatever fails and whenever.
func TestValuesOfReferencesAreShownNowhere(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ from, to, want string }{
		"refused":             {"rate: 1,", "rate: '${LEAK}',", `not "${LEAK}"`},
		"refused, short":      {"rate: 1,", "rate: '${LEAK_SHORT}',", `not "${LEAK_SHORT}"`},
		"cannot be opened":    {"p.jsonl", "no/${LEAK}/p.jsonl", "/no/${LEAK}"},
		"a path":              {`path: "`, `path: "${LEAK_PATH}`, "${LEAK_PATH}"},
		"no plugin":           {"builtin:file", "builtin:$LEAK", `"builtin:$LEAK"`},
		"from a file":         {"rate: 1,", "rate: '${file:DIR/secret}',", `not "${file:DIR/secret}"`},
		"as a part of a text": {"rate: 1,", "rate: 'a${LEAK_SHORT}b${LEAK}',", `not "a${LEAK_SHORT}b${LEAK}"`},
	}
	for name, c := range cases {
		for _, update := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, update %v", name, update), func(t *testing.T) {
				t.Parallel()
				dir := agenttest.NewDir(t)
				w := startWeb(t, dir, agenttest.RetryLater)
				if err := os.WriteFile(w.Path("secret"), []byte(secret+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				at := strings.NewReplacer("DIR", dir)
				generation := int64(1)
				if update {
					w.Save("p.yaml", agenttest.Generated(dir, "p", 1, ""))
					w.WaitPhase("p", spec.PhaseRunning, 1)
					generation = 2
				}
				w.Save("p.yaml", strings.Replace(agenttest.Generated(dir, "p", 1, ""), c.from, at.Replace(c.to), 1))
				w.Wait("the failure", func() bool {
					a := w.State("p").LastAttempt
					return a != nil && a.Generation == generation && a.Error != ""
				})
				if text := w.State("p").LastAttempt.Error; !strings.Contains(text, at.Replace(c.want)) {
					t.Errorf("the error does not name the reference: %s", text)
				}
				if name == "refused" && !update { // a retry cannot succeed
					w.Wait("the pipeline to be given up", func() bool {
						return w.State("p").Phase == spec.PhaseDegraded
					})
				}
				for _, path := range []string{"/v1/pipelines", "/v1/pipelines/p/status", "/v1/events", "/metrics"} {
					if got := w.Do("GET", path, ""); strings.Contains(got.Body, secret) {
						t.Errorf("%s shows it: %s", path, got.Body)
					}
				}
				w.Stop()
				if strings.Contains(w.Log(), secret) {
					t.Error("the log shows it")
				}
				stored, _ := filepath.Glob(dir + "/conduit.db*")
				reports, _ := filepath.Glob(dir + "/conduit.db.status/*")
				for _, path := range append(stored, reports...) {
					if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), secret) {
						t.Errorf("%s holds it", path)
					}
				}
			})
		}
	}
}

// Log lines of connectors in the agent's process are redacted, too.
func TestValuesOfReferencesAreNotLoggedByConnectors(t *testing.T) {
	t.Parallel()
	d := deskIn(t, "")
	d.Must(os.WriteFile(d.Path(secret), []byte("1\n2\n"), 0o600))
	d.Save("p.yaml", strings.NewReplacer("builtin:generator", "builtin:file", "rate: 1,",
		"path: '"+d.Dir+"/${LEAK}'} #").Replace(d.Generated("p", 1)))
	d.Wait("records", func() bool {
		b, _ := os.ReadFile(d.Path("p.jsonl"))
		return strings.Count(string(b), "\n") == 2
	})
	d = d.again(func() { d.Must(os.Truncate(d.Path(secret), 2)) })
	d.Wait("the connector to log", func() bool { return strings.Contains(d.Log(), "/${LEAK}") })
	if strings.Contains(d.Log(), secret) {
		t.Error("the log shows it")
	}
}

// The dead-letter queue gives the reason of a refusal, but no values.
func TestValuesOfReferencesAreNotInDeadLetters(t *testing.T) {
	t.Parallel()
	d := deskIn(t, "")
	d.Must(os.Symlink("/dev/full", d.Path(secret)))
	d.Save("p.yaml",
		strings.Replace(agenttest.Generated(d.Dir, "p", 1, "dead-letter-queue: {window-size: 0}"), "p.jsonl", "${LEAK}",
			1))
	d.Wait("a dead letter", func() bool { return strings.Contains(d.Log(), "cannot write to "+d.Dir+"/${LEAK}") })
	if strings.Contains(d.Log(), secret) {
		t.Error("the log shows it")
	}
}
