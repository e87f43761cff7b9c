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

// access is one use of a register: reading the description of a pipeline, or replacing
// it if it is still what was read.
type access struct {
	pipeline string
	write    bool
	from, to string
}

// result is what came of an access.
type result struct {
	value string // that was read
	done  bool   // it was replaced
}

// register says what a description may do when many use it.
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

// crowdOfClients has clients read and replace descriptions, and returns what they did.
type crowdOfClients struct {
	*web
	began     time.Time // times of the history count from here: those of the wall clock may be set back
	pipelines []string
	mu        sync.Mutex
	history   []porcupine.Operation // guarded by mu
	chain     map[string]string     // pipeline and new value → value replaced; guarded by mu
}

// access performs and records an access. send returns what came of it.
func (c *crowdOfClients) access(client int, in access, send func() result) result {
	call := time.Since(c.began)
	out := send()
	back := time.Since(c.began)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, porcupine.Operation{ClientId: client, Input: in, Call: int64(call), Output: out, Return: int64(back)})
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

// Many clients change the same pipelines while files that declare them, too, are edited:
// what each sees is one order of changes, and none is lost.
func TestWritesAreLinearizable(t *testing.T) {
	t.Parallel()
	const rounds = 10
	w := startWeb(t, "")
	c := &crowdOfClients{web: w, began: time.Now(), chain: map[string]string{}, pipelines: strings.Split("abcdefghij", "")}
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

// editFiles saves files until done: some declare pipelines that the API owns, and one
// declares pipeline z, each time with a higher number as its description.
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
		a.Save("z.yaml", agenttest.Generated(a.Dir, "z", 1, fmt.Sprintf("description: \"%09d\"\n    status: stopped", n)))
	}
}

// watchFile checks that what the file declares only ever goes forward, n changes long,
// and that no other client changes it.
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

// checkRevisions checks that the revisions of a pipeline are the changes that succeeded,
// each made of the one before.
func (c *crowdOfClients) checkRevisions(t *testing.T, id string) {
	var history []spec.Revision
	c.Must("GET", "/v1/pipelines/"+id+"/history", "", &history)
	before, changes := "", 0
	for _, r := range history[1:] {
		from, made := c.chain[id+" "+r.Spec.Description]
		if !made || from != before {
			t.Errorf("%s: revision %d declares %q after %q, want it after %q", id, r.Number, r.Spec.Description, before, from)
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
