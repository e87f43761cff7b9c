package cluster_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// TestAPIPipelines declares a pipeline through the API of one of three members, which have separate files: all know it,
// one runs it, and another one takes over when that member is killed. Any member can change it, and one of two
// concurrent changes is refused. Its deletion takes effect on all members, also on one that was down.
func TestAPIPipelines(t *testing.T) {
	t.Parallel()
	eachStore(t, 3, func(t *testing.T, url string) {
		f := &fleet{t: t, dir: t.TempDir(), written: make([]int, 1)}
		for i := range 3 {
			files := t.TempDir()
			m := newMember(t, fmt.Sprint("m", i), files, url, ttl)
			if i == 2 {
				text := fmt.Sprintf("version: \"2.2\"\npipelines:\n  - id: filed\n    status: running\n    "+
					"connectors:\n      - {id: in, type: source, plugin: \"builtin:file\", settings: {path: %q}}\n   "+
					"   - {id: out, type: destination, plugin: builtin:log}\n", filepath.Join(f.dir, "filed"))
				writeFile(t, filepath.Join(f.dir, "filed"), "")
				writeFile(t, filepath.Join(files, "filed.yaml"), text)
			}
			f.members = append(f.members, m)
			m.start()
		}
		for _, m := range f.members {
			m.awaitLog("reason=Joined")
		}
		f.members[2].awaitLog("reason=Claimed") // the pipeline in the file that m0 lacks
		m0 := f.members[0]
		m0.awaitCluster("there is a claim of filed", func(c *spec.Cluster) bool {
			return slices.ContainsFunc(c.Pipelines, func(p spec.ClusterPipeline) bool {
				return p.ID == "filed" && p.Member == "m2"
			})
		})
		if status, answer := m0.request("POST", "/v1/pipelines", `{"id":"filed","config":{"name":"other"}}`); status !=
			http.StatusConflict {
			t.Errorf("the id of a file of another member is given again: %d %s", status, answer)
		}
		writeFile(t, f.in(0), "")
		m0.send("POST", "/v1/pipelines/import", fmt.Sprintf(`{"version":"2.2","pipelines":[{"id":"own","status":"running",
			"name":"first","connectors":[
			{"id":"in","type":"source","plugin":"builtin:file","settings":{"path":%q}},
			{"id":"out","type":"destination","plugin":"builtin:file","settings":{"path":%q,"sdk.record.format":"template",
			"sdk.record.format.options":"{{ printf \"%%s\" .Payload.After }}"}}]}]}`, f.in(0), f.out(0)))
		f.feed(10)
		f.await()
		owner := f.member(f.owner("own"))
		for _, m := range f.members {
			if s := decoded[rest.PipelineStatus](m, "GET", "/v1/pipelines/own/status"); s.Owner.Kind != spec.OwnerAPI ||
				(s.Placement == nil) != (m == owner) {
				t.Errorf("%s has it of %+v, on %+v; want it on %s", m.name, s.Owner, s.Placement, owner.name)
			}
		}
		owner.kill()
		f.members = f.without(owner)
		f.feed(10)
		f.await()
		a, b := f.members[0], f.members[1]
		f.oneOfTwo(a, b)
		status, answer := b.request("POST", "/v1/pipelines/own/rollback?live", `{"revision":1}`)
		if status != http.StatusOK {
			t.Fatalf("roll back: %d %s", status, answer)
		}
		a.awaitName("first")
		a.call("POST", "/v1/pipelines/own/stop")
		b.awaitCluster("no member runs it", func(c *spec.Cluster) bool {
			return slices.ContainsFunc(c.Pipelines, func(p spec.ClusterPipeline) bool {
				return p.ID == "own" && p.Member == ""
			})
		})
		for _, path := range []string{"/v1/connectors/own:in", "/v1/connectors/own:out", "/v1/pipelines/own"} {
			a.call("DELETE", path)
		}
		owner.start()
		for _, m := range []*member{b, owner} {
			wait.For(t, m.name+" to have it no more", func() bool {
				status, _ := m.request("GET", "/v1/pipelines/own", "")
				return status == http.StatusNotFound
			})
		}
		owner.awaitLog("reason=Joined")
		wait.For(t, "the id to be free again", func() bool {
			status, _ := owner.request("POST", "/v1/pipelines", `{"id":"own","config":{"name":"second"}}`)
			return status == http.StatusOK
		})
		a.awaitName("second")
		b.awaitName("second")
	})
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// awaitName waits until a member knows the given name of the pipeline.
func (m *member) awaitName(name string) {
	m.t.Helper()
	last := ""
	wait.For(m.t, m.name+" to have the name "+name, func() bool {
		_, last = m.request("GET", "/v1/pipelines/own", "")
		return strings.Contains(last, `"name":"`+name+`"`)
	}, func() string { return last })
}

// oneOfTwo changes the same version of the pipeline through two members at the same time: one change is refused.
func (f *fleet) oneOfTwo(a, b *member) {
	f.t.Helper()
	tag := a.tag()
	if other := b.tag(); other != tag {
		f.t.Fatalf("%s has version %s, and %s has %s", a.name, tag, b.name, other)
	}
	codes, names := [2]int{}, [2]string{"by a", "by b"}
	var sending sync.WaitGroup
	for i, m := range []*member{a, b} {
		sending.Go(func() {
			codes[i], _ = m.request("PUT", "/v1/pipelines/own", `{"config":{"name":"`+names[i]+`"}}`, "If-Match", tag)
		})
	}
	sending.Wait()
	won := slices.Index(codes[:], http.StatusOK)
	if won < 0 || codes[1-won] != http.StatusPreconditionFailed {
		f.t.Fatalf("two changes of one version: %v", codes)
	}
	a.awaitName(names[won])
	b.awaitName(names[won])
}

// tag returns the ETag of the pipeline.
func (m *member) tag() string {
	m.t.Helper()
	response, err := http.Get("http://" + m.address() + "/v1/pipelines/own")
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	return response.Header.Get("ETag")
}
