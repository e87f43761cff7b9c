package cluster_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// TestFileOfOneMember has two members with separate directories. The first member never had the file of the first
// pipeline, has another version of the second, and loses the file of the third. The other member has all files. It
// gives its pipelines away, and stops the third one, each for many times as long as claims of deleted pipelines are
// kept: nothing is deleted, and it then resumes all pipelines from their checkpoints.
func TestFileOfOneMember(t *testing.T) {
	load.Parallel(t, load.Server+2*load.Agent)
	url := server.StartNATS(t, 1)[0].URL()
	f := joined(t, []string{url, url}, 0, 5*time.Second, func(c *config.Config) {
		c.Cluster.Keep, c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = time.Second, 0, 0
	})
	const lost, other = 1, 2
	has, lacks := f.members[0], f.members[1]
	f.written, f.terms = make([]int, 3), map[int]string{}
	own := t.TempDir()
	lacks.stop()
	lacks.config.Pipelines.Path = own
	for i := range f.written {
		f.declare(i)
	}
	f.feed(10)
	f.await()
	for _, i := range []int{lost, other} {
		text, err := os.ReadFile(filepath.Join(f.dir, "pipelines", fmt.Sprintf("p%d.yaml", i)))
		if err != nil {
			t.Fatal(err)
		}
		version := string(text)
		if i == other {
			version = strings.Replace(version, `printf "%s"`, `printf "other %s"`, 1)
		}
		if err := os.WriteFile(filepath.Join(own, fmt.Sprintf("p%d.yaml", i)), []byte(version), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	lacks.start()
	lacks.awaitLog("reason=Joined")
	wait.For(t, "it to read its files", func() bool {
		status, _ := lacks.request("GET", fmt.Sprintf("/v1/pipelines/p%d/status", lost), "")
		return status == http.StatusOK
	})
	has.call("POST", "/v1/cluster/drain")
	lacks.awaitLog(fmt.Sprintf("reason=Differs pipeline_id=p%d", other))
	f.mustKeep(has)
	has.call("POST", "/v1/cluster/resume")
	f.feed(10)
	f.await()
	if err := os.Remove(filepath.Join(own, fmt.Sprintf("p%d.yaml", lost))); err != nil {
		t.Fatal(err)
	}
	has.awaitCluster("it has all", func(c *spec.Cluster) bool { return owned(c, has.name) == len(f.written) })
	has.call("POST", fmt.Sprintf("/v1/pipelines/p%d/stop", lost))
	f.mustKeep(has)
	has.call("POST", fmt.Sprintf("/v1/pipelines/p%d/start", lost))
	f.feed(10)
	f.await()
	for i := range f.written {
		if _, repeats := f.arrived(i); repeats > 0 {
			t.Errorf("p%d repeats %d lines", i, repeats)
		}
	}
	for _, m := range f.members {
		for _, reason := range []string{"Deleted", "Retiring"} {
			if strings.Contains(m.log.String(), "reason="+reason) {
				t.Errorf("%s: %s, and one member has every file", m.name, reason)
			}
		}
	}
}

// mustKeep checks, through a member, that the claims and positions of all pipelines still exist after many times the
// period for which those of deleted pipelines are kept.
func (f *fleet) mustKeep(by *member) {
	f.t.Helper()
	began := time.Now()
	wait.For(f.t, "many times as long as deleted claims are kept", func() bool {
		return time.Since(began) > 15*time.Second
	})
	c := decoded[spec.Cluster](by, "GET", "/v1/cluster")
	for i := range f.written {
		id := fmt.Sprint("p", i)
		if p := decoded[rest.Position](by, "GET", "/v1/connectors/"+id+":in/position"); len(p.Position) == 0 {
			f.t.Errorf("the position of %s is gone", id)
		}
		if !slices.ContainsFunc(c.Pipelines, func(p spec.ClusterPipeline) bool { return p.ID == id }) {
			f.t.Errorf("the claim of %s is gone", id)
		}
	}
}
