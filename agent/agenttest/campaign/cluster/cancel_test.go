package cluster_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// TestCancelReplayOnAnyMember cancels, through one member, the replay on another member, which waits for its
// destination: both know that it is being canceled, and then its result and the remaining dead letters.
func TestCancelReplayOnAnyMember(t *testing.T) {
	t.Parallel()
	eachStore(t, 2, testCancelReplay)
}

// declareRefusing makes a pipeline refuse every line of a file, or send the lines to an HTTP server.
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

// stuckReplay is a replay of the dead letters of a pipeline. It runs on a, b sees it, and its first request is not
// answered until release.
type stuckReplay struct {
	a, b     *member
	requests atomic.Int64
	release  func()
}

const (
	stuckLetters = 40
	replayPath   = "/v1/pipelines/p/dead-letter-replay"
)

func newStuckReplay(t *testing.T, url string) *stuckReplay {
	t.Helper()
	s := &stuckReplay{}
	arrived, release := make(chan struct{}), make(chan struct{})
	sink := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if s.requests.Add(1) == 1 {
			close(arrived)
		}
		<-release
	}))
	t.Cleanup(sink.Close)
	s.release = sync.OnceFunc(func() { close(release) })
	t.Cleanup(s.release)
	dir := t.TempDir()
	file, in := filepath.Join(dir, "pipelines", "p.yaml"), filepath.Join(dir, "in")
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(in, []byte(strings.Repeat("line\n", stuckLetters)), 0o644); err != nil {
		t.Fatal(err)
	}
	declareRefusing(t, file, in, sink.URL, true)
	s.a, s.b = newMember(t, "a", filepath.Dir(file), url, ttl), newMember(t, "b", filepath.Dir(file), url, ttl)
	for _, m := range []*member{s.a, s.b} {
		m.start()
		m.awaitLog("reason=Joined")
		m.awaitLetters(stuckLetters)
	}
	declareRefusing(t, file, in, sink.URL, false)
	s.a.awaitLog("reason=Changed")
	s.a.send("POST", replayPath, `{"all":true}`)
	<-arrived
	s.b.awaitReplay("a replays", func(r *spec.Replay) bool { return r.Running && r.Member == "a" && !r.Cancelled })
	return s
}

// awaitEnd answers the first request, and waits until both members know the result of the replay and the remaining dead
// letters. It returns the number of settled dead letters, which equals the number of arrivals without those repeated
// because of the late answer.
func (s *stuckReplay) awaitEnd() (settled int64) {
	s.release()
	for _, m := range []*member{s.a, s.b} {
		m.awaitReplay("the replay to have ended", func(r *spec.Replay) bool {
			settled = r.Settled
			return !r.Running && r.Cancelled && r.Error == "" && r.Settled > 0 && r.Settled <= s.requests.Load()
		})
	}
	s.b.awaitLetters(stuckLetters - int(settled))
	return settled
}

func testCancelReplay(t *testing.T, url string) {
	s := newStuckReplay(t, url)
	a, b := s.a, s.b
	if page := decoded[spec.DeadLetterPage](b, "GET", lettersPath); page.Replay == nil || page.Replay.Member != "a" {
		t.Errorf("the dead letters that b lists have the replay %+v", page.Replay)
	}
	if status, answer := b.request("POST", replayPath, `{"all":true}`); status != http.StatusConflict ||
		!strings.Contains(answer, "on the member a ") {
		t.Errorf("b replays them, too: %d %s", status, answer)
	}
	for range 2 {
		if r := decoded[spec.Replay](b, "DELETE", replayPath); !r.Running || !r.Cancelled || r.Member != "a" ||
			r.Message != "" {
			t.Errorf("when it is to end it is %+v", r)
		}
	}
	if r := decoded[spec.Replay](a, "GET", replayPath); !r.Running || !r.Cancelled || r.Member != "" {
		t.Errorf("a knows %+v", r)
	}
	s.awaitEnd()
}

// TestCancelReplayOnThePage cancels the replay of another member in a browser.
func TestCancelReplayOnThePage(t *testing.T) {
	load.Parallel(t, load.Server+2*load.Agent+load.Browser)
	s := newStuckReplay(t, server.StartNATS(t, 1)[0].URL())
	p := openPage(t, s.b, "pipelines/p/dead-letters")
	p.until("the replay of the other member",
		`/^Replaying on a: 0 settled, 0 refused again…/.test(document.querySelector('#replay').innerText)`)
	p.click("#replay button")
	p.until("that it is to end", `/^Ending the replay on a: /.test(document.querySelector('#replay').innerText) && `+
		`!document.querySelector('#replay button')`)
	settled := s.awaitEnd()
	p.until("how it ended",
		fmt.Sprintf(`/^Replayed \d+: %d settled, 0 refused again\./.test(document.querySelector('#replay').innerText)`,
			settled))
}

// awaitReplay waits until the view that a member has of the replay satisfies done.
func (m *member) awaitReplay(what string, done func(r *spec.Replay) bool) {
	m.t.Helper()
	var r spec.Replay
	wait.For(m.t, what+", as "+m.name+" knows", func() bool {
		if status, _ := m.request("GET", replayPath, ""); status != http.StatusOK {
			return false
		}
		r = decoded[spec.Replay](m, "GET", replayPath)
		return done(&r)
	}, func() string { return fmt.Sprintf("it knows %+v", r) })
}
