package cluster_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// TestCancelReplayOnAnyMember has a member end the replay of another one, which waits for its destination: both know that it is to
// end, and then how it ended, and which dead letters are left.
func TestCancelReplayOnAnyMember(t *testing.T) {
	t.Parallel()
	eachStore(t, testCancelReplay)
}

// declareRefusing has a pipeline refuse every line of a file, or send them to an HTTP server.
func declareRefusing(t *testing.T, file, in, url string, refuses bool) {
	t.Helper()
	yaml := fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p
    status: running
    dead-letter-queue: {window-size: 0}
    connectors:
      - {id: in, type: source, plugin: "builtin:file", settings: {path: %q}}
      - {id: out, type: destination, plugin: "builtin:http", settings: {url: %q, sdk.batch.size: "1"}}
    processors:
      - {id: refuse, plugin: error, condition: "%t"}
`, in, url, refuses)
	if err := os.WriteFile(file, []byte(yaml), 0o644); err != nil {
		t.Fatal(err)
	}
}

func testCancelReplay(t *testing.T, url string) {
	arrived, release := make(chan struct{}), make(chan struct{})
	var requests atomic.Int64
	sink := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if requests.Add(1) == 1 {
			close(arrived)
		}
		<-release
	}))
	t.Cleanup(sink.Close)
	t.Cleanup(func() {
		select {
		case <-release:
		default:
			close(release)
		}
	})
	dir := t.TempDir()
	file, in := filepath.Join(dir, "pipelines", "p.yaml"), filepath.Join(dir, "in")
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	const lines = 40
	if err := os.WriteFile(in, []byte(strings.Repeat("line\n", lines)), 0o644); err != nil {
		t.Fatal(err)
	}
	declareRefusing(t, file, in, sink.URL, true)
	a, b := newMember(t, "a", filepath.Dir(file), url, ttl), newMember(t, "b", filepath.Dir(file), url, ttl)
	for _, m := range []*member{a, b} {
		m.start()
		m.awaitLog("reason=Joined")
		m.awaitLetters(lines)
	}
	declareRefusing(t, file, in, sink.URL, false)
	a.awaitLog("reason=Changed")
	const path = "/v1/pipelines/p/dead-letter-replay"
	a.send("POST", path, `{"all":true}`)
	<-arrived
	b.awaitReplay("a replays", func(r *rest.Replay) bool { return r.Running && r.Member == "a" && !r.Cancelled })
	if page := decoded[rest.DeadLetterPage](b, "GET", lettersPath); page.Replay == nil || page.Replay.Member != "a" {
		t.Errorf("the dead letters that b lists have the replay %+v", page.Replay)
	}
	if status, answer := b.request("POST", path, `{"all":true}`); status != http.StatusConflict || !strings.Contains(answer, "on the member a ") {
		t.Errorf("b replays them, too: %d %s", status, answer)
	}
	for range 2 {
		if r := decoded[rest.Replay](b, "DELETE", path); !r.Running || !r.Cancelled || r.Member != "a" || r.Message != "" {
			t.Errorf("when it is to end it is %+v", r)
		}
	}
	if r := decoded[rest.Replay](a, "GET", path); !r.Running || !r.Cancelled || r.Member != "" {
		t.Errorf("a knows %+v", r)
	}
	close(release)
	for _, m := range []*member{a, b} {
		m.awaitReplay("the replay to have ended", func(r *rest.Replay) bool {
			return !r.Running && r.Cancelled && r.Error == "" && r.Settled == requests.Load()
		})
	}
	b.awaitLetters(lines - int(requests.Load()))
}

// awaitReplay waits for what a member knows of the replay of the pipeline.
func (m *member) awaitReplay(what string, done func(r *rest.Replay) bool) {
	m.t.Helper()
	var r rest.Replay
	wait.For(m.t, what+", as "+m.name+" knows", func() bool {
		if status, _ := m.request("GET", "/v1/pipelines/p/dead-letter-replay", ""); status != http.StatusOK {
			return false
		}
		r = decoded[rest.Replay](m, "GET", "/v1/pipelines/p/dead-letter-replay")
		return done(&r)
	}, func() string { return fmt.Sprintf("it knows %+v", r) })
}
