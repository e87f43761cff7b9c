package pages

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// host is one of the three machines on the page.
type host struct {
	t     *testing.T
	name  string
	dir   string // working directory of commands
	bin   string
	env   []string
	agent *exec.Cmd
}

// TestThreeHosts follows the page for three hosts, with the settings and the pipelines of the manifest for Kubernetes.
func TestThreeHosts(t *testing.T) {
	load.Parallel(t, 3*load.Server+3*load.Agent)
	const pipelines = 6
	settings, files := manifest(t)
	var urls []string
	for _, s := range server.StartNATS(t, 3) {
		urls = append(urls, s.URL())
	}
	shared, bin := t.TempDir(), filepath.Join(build(t), "conduit")
	for i := range pipelines {
		for name, text := range files {
			writeFile(t, filepath.Join(shared, fmt.Sprintf("%d-%s", i, name)),
				strings.ReplaceAll(text, "id: demo", fmt.Sprintf("id: demo%d", i)))
		}
	}
	var hosts []*host
	for i := range 3 {
		h := &host{t: t, name: fmt.Sprintf("conduit-%d", i), dir: t.TempDir(), bin: bin}
		writeFile(t, filepath.Join(h.dir, "conduit.yaml"), settings)
		writeFile(t, filepath.Join(h.dir, "token"), "secret\n")
		h.env = append(os.Environ(), "CONDUIT_API_HTTP_ADDRESS=127.0.0.1:0",
			"CONDUIT_API_HTTP_SOCKET="+filepath.Join(h.dir, "api.sock"),
			"CONDUIT_API_AUTH_ADMIN_TOKEN_FILE="+filepath.Join(h.dir, "token"), "CONDUIT_PIPELINES_PATH="+shared,
			"CONDUIT_PIPELINES_ALLOWED_PATHS="+shared,
			"CONDUIT_CONNECTORS_PATH="+h.dir, "CONDUIT_DB_SQLITE_PATH="+filepath.Join(h.dir, "conduit.db"),
			"CONDUIT_CLUSTER_NATS_URL="+strings.Join(urls, ","),
			"CONDUIT_CLUSTER_MEMBER="+h.name, "CONDUIT_CLUSTER_TTL=10s")
		hosts = append(hosts, h)
		h.start()
	}
	runs := func(h *host) int { return hosts[1].cluster().owned(h.name) }
	hosts[0].await("three members", func(c cluster) bool { return len(c.Members) == len(hosts) })
	hosts[1].await("a share for each", func(c cluster) bool {
		return c.owned(hosts[0].name) > 0 && c.owned(hosts[1].name) > 0 && c.owned(hosts[2].name) > 0 &&
			c.owned("") == pipelines
	})
	hosts[1].output("cluster", "drain")
	hosts[1].await("nothing for the one that is drained", func(c cluster) bool {
		return c.owned(hosts[1].name) == 0 && c.owned("") == pipelines
	})
	hosts[1].output("cluster", "resume")
	hosts[1].await("a share for the one that resumes", func(c cluster) bool { return c.owned(hosts[1].name) > 0 })
	if runs(hosts[0]) == 0 {
		t.Fatal("the host that is to die runs nothing")
	}
	_ = hosts[0].agent.Process.Kill()
	hosts[1].await("all pipelines on two hosts", func(c cluster) bool {
		return c.owned(hosts[1].name)+c.owned(hosts[2].name) == pipelines
	})
	if events := hosts[1].output("events") + hosts[2].output("events"); !strings.Contains(events, "TookOver") {
		t.Errorf("no event says that a pipeline was taken over:\n%s", events)
	}
}

// manifest returns the settings and the pipeline files of the manifest.
func manifest(t *testing.T) (settings string, files map[string]string) {
	t.Helper()
	f, err := os.Open(root + "/cmd/conduit/package/kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	maps := map[string]map[string]string{}
	for decoder := yaml.NewDecoder(f); ; {
		var document struct {
			Kind     string
			Metadata struct{ Name string }
			Data     map[string]string
		}
		if err := decoder.Decode(&document); err != nil {
			break // the end, or too few maps
		}
		if document.Kind == "ConfigMap" {
			maps[document.Metadata.Name] = document.Data
		}
	}
	settings, files = maps["conduit"]["conduit.yaml"], maps["conduit-pipelines"]
	if settings == "" || len(files) == 0 {
		t.Fatalf("the manifest has %v", maps)
	}
	return settings, files
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (h *host) start() {
	h.t.Helper()
	log, err := os.Create(filepath.Join(h.dir, "log"))
	if err != nil {
		h.t.Fatal(err)
	}
	h.agent = h.command("run")
	h.agent.Stdout, h.agent.Stderr = log, log
	h.agent.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := h.agent.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		_ = h.agent.Process.Signal(syscall.SIGTERM)
		_ = h.agent.Wait()
		_ = log.Close()
	})
}

func (h *host) command(args ...string) *exec.Cmd {
	c := exec.Command(h.bin, args...)
	c.Dir, c.Env = h.dir, h.env
	return c
}

func (h *host) output(args ...string) string {
	h.t.Helper()
	out, err := h.command(args...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("%s: conduit %q: %v\n%s", h.name, args, err, out)
	}
	return string(out)
}

type cluster spec.Cluster

// owned counts the pipelines of a member, or of all members if none is named.
func (c cluster) owned(member string) (n int) {
	for i := range c.Pipelines {
		if owner := c.Pipelines[i].Member; owner != "" && (owner == member || member == "") {
			n++
		}
	}
	return n
}

// cluster returns the view of the host's agent, or nothing while it does not answer.
func (h *host) cluster() (c cluster) {
	out, err := h.command("cluster", "status", "--json").Output()
	if err == nil {
		err = json.Unmarshal(out, &c)
	}
	if err != nil {
		return cluster{}
	}
	return c
}

func (h *host) await(what string, ok func(cluster) bool) {
	h.t.Helper()
	var c cluster
	wait.For(h.t, what, func() bool { c = h.cluster(); return ok(c) }, func() string {
		log, _ := os.ReadFile(filepath.Join(h.dir, "log"))
		return fmt.Sprintf("%s knows %+v\n%s", h.name, c, log)
	})
}
