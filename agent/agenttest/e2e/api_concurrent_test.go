package e2e_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// access is one operation on a register: it reads the description of a pipeline, or replaces it if it still has the
// value read before.
type access struct {
	pipeline string
	write    bool
	from, to string
}

// result is the outcome of an access.
type result struct {
	value string // the value read
	done  bool   // the value was replaced
}

// register is the sequential model of a description with many clients.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byPipeline := map[string][]porcupine.Operation{}
		for _, o := range history {
			id := o.Input.(access).pipeline
			byPipeline[id] = append(byPipeline[id], o)
		}
		var parts [][]porcupine.Operation
		for _, part := range byPipeline {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		value, in, out := state.(string), input.(access), output.(result)
		switch {
		case !in.write:
			return out.value == value, value
		case out.done:
			return in.from == value, in.to
		}
		return in.from != value, value
	},
}

// crowdOfClients are clients that read and replace descriptions, and the history of their accesses.
type crowdOfClients struct {
	*web
	began     time.Time // times in the history count from here, as the wall clock may be set back
	pipelines []string
	mu        sync.Mutex
	history   []porcupine.Operation // guarded by mu
	chain     map[string]string     // pipeline and new value → value replaced; guarded by mu
}

// access performs and records an access. send returns its result.
func (c *crowdOfClients) access(client int, in access, send func() result) result {
	call := time.Since(c.began)
	out := send()
	back := time.Since(c.began)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, porcupine.Operation{ClientId: client, Input: in, Call: int64(call), Output: out,
		Return: int64(back)})
	if out.done {
		c.chain[in.pipeline+" "+in.to] = in.from
	}
	return out
}

func (c *crowdOfClients) run(client, rounds int) {
	for round := range rounds {
		id := c.pipelines[rand.IntN(len(c.pipelines))]
		var etag string
		seen := c.access(client, access{pipeline: id}, func() result {
			got := c.Do("GET", "/v1/pipelines/"+id, "")
			var p struct{ Config struct{ Description string } }
			if err := json.Unmarshal([]byte(got.Body), &p); err != nil {
				c.T.Errorf("GET: %d %s", got.Status, got.Body)
			}
			etag = got.Header.Get("ETag")
			return result{value: p.Config.Description}
		})
		next := fmt.Sprintf("%d-%d", client, round)
		c.access(client, access{id, true, seen.value, next}, func() result {
			body := fmt.Sprintf(`{"config":{"name":%q,"description":%q}}`, id, next)
			got := c.Do("PUT", "/v1/pipelines/"+id, body, "If-Match", etag)
			if got.Status != http.StatusOK && got.Status != http.StatusPreconditionFailed {
				c.T.Errorf("PUT: %d %s", got.Status, got.Body)
			}
			return result{done: got.Status == http.StatusOK}
		})
	}
}

var clients = flag.Int("clients", 20, "clients that change the same pipelines")

// Many clients change the same pipelines while files that also declare them are edited: all clients see one order of
// changes, and no change is lost.
func TestWritesAreLinearizable(t *testing.T) {
	t.Parallel()
	const rounds = 10
	w := startWeb(t, "")
	c := &crowdOfClients{web: w, began: time.Now(), chain: map[string]string{},
		pipelines: strings.Split("abcdefghij", "")}
	for _, id := range c.pipelines {
		w.Must("POST", "/v1/pipelines", fmt.Sprintf(`{"id":%[1]q,"config":{"name":%[1]q}}`, id), nil)
	}
	done := make(chan struct{})
	var editing, asking sync.WaitGroup
	editing.Go(func() { editFiles(w.Agent, c.pipelines, done) })
	for i := range *clients {
		asking.Go(func() { c.run(i, rounds) })
	}
	asking.Go(func() { watchFile(t, w, 8) })
	asking.Wait()
	close(done)
	editing.Wait()

	if result := porcupine.CheckOperationsTimeout(register, c.history, wait.Limit); result != porcupine.Ok {
		t.Errorf("the history of %d accesses is %s", len(c.history), result)
	}
	for _, id := range c.pipelines {
		c.checkRevisions(t, id)
	}
	t.Logf("%d accesses by %d clients, %d changes", len(c.history), *clients, len(c.chain))
}

// editFiles saves files until done. Some declare pipelines that the API owns; one declares pipeline z, with a higher
// number as its description in each version.
func editFiles(a *agenttest.Agent, owned []string, done <-chan struct{}) {
	tick := time.NewTicker(5 * time.Millisecond) // as fast as a program saves files
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		id := owned[n%len(owned)]
		a.Save(id+".yaml", agenttest.Generated(a.Dir, id, n, "status: stopped"))
		a.Save("z.yaml", agenttest.Generated(a.Dir, "z", 1,
			fmt.Sprintf("description: \"%09d\"\n    status: stopped", n)))
	}
}

// watchFile checks that the declared value of the file only increases, for n changes, and that no other client changes
// it.
func watchFile(t *testing.T, w *web, n int) {
	last := ""
	deadline := time.Now().Add(wait.Limit)
	for changes := 0; changes < n; {
		if time.Now().After(deadline) {
			t.Errorf("only %d changes of the file were seen", changes)
			return
		}
		var p struct{ Config struct{ Description string } }
		got := w.Do("GET", "/v1/pipelines/z", "")
		if got.Status == http.StatusNotFound && last == "" {
			continue
		}
		if err := json.Unmarshal([]byte(got.Body), &p); err != nil || got.Status != http.StatusOK ||
			p.Config.Description < last {
			t.Errorf("after %s: %d %s", last, got.Status, got.Body)
			return
		}
		if p.Config.Description != last {
			changes++
		}
		last = p.Config.Description
		got = w.Do("PUT", "/v1/pipelines/z", `{"config":{"name":"z","description":"000000000"}}`)
		if got.Status != http.StatusConflict {
			t.Errorf("change of the file's pipeline: %d %s", got.Status, got.Body)
		}
	}
}

// checkRevisions checks that the revisions of a pipeline are the changes that succeeded, each based on its predecessor.
func (c *crowdOfClients) checkRevisions(t *testing.T, id string) {
	var history []spec.Revision
	c.Must("GET", "/v1/pipelines/"+id+"/history", "", &history)
	before, changes := "", 0
	for _, r := range history[1:] {
		from, made := c.chain[id+" "+r.Spec.Description]
		if !made || from != before {
			t.Errorf("%s: revision %d declares %q after %q, want it after %q", id, r.Number, r.Spec.Description, before,
				from)
		}
		before = r.Spec.Description
		changes++
	}
	want := 0
	for key := range c.chain {
		if key[:1] == id {
			want++
		}
	}
	if changes != want {
		t.Errorf("%s: %d revisions of %d changes", id, changes, want)
	}
}
