package kill_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/elastic"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
)

// elasticAddr, when set, makes the test binary a server with the bulk API that keeps documents in its working
// directory.
const elasticAddr = "CONDUIT_KILL_ELASTIC"

// serveElastic admits the API key in the file key. It responds to GET with the documents.
func serveElastic(addr string) error {
	s, err := elastic.Open("documents")
	if err != nil {
		return err
	}
	s.Before = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		key, err := os.ReadFile("key")
		switch {
		case err != nil || r.Header.Get("Authorization") != "ApiKey "+string(key):
			w.WriteHeader(http.StatusUnauthorized)
		case r.Method == http.MethodGet:
			_ = json.NewEncoder(w).Encode(s.Documents())
		default:
			return false
		}
		return true
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return http.Serve(l, s)
}

// elasticSystem is the server of a test, with the files that contain its API key.
type elasticSystem struct {
	*server.Process
	addr, dir string
	key       string // path of the file that settings refer to
	n         int    // keys so far
}

func startElastic(t *testing.T, dir string) *elasticSystem {
	t.Helper()
	e := &elasticSystem{dir: server.Dir(t), addr: fmt.Sprintf("127.0.0.1:%d", network.FreePort(t)),
		key: filepath.Join(dir, "key")}
	if err := e.rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.Process = &server.Process{Path: ownProgram(t, e.dir), Dir: e.dir, Env: []string{elasticAddr + "=" + e.addr},
		Ready: func(ctx context.Context) error {
			_, err := e.documents(ctx)
			return err
		}}
	e.Launch(t)
	return e
}

// rotate replaces the API key, which the server reads for each request.
func (e *elasticSystem) rotate(context.Context) error {
	e.n++
	return replaceFiles(fmt.Appendf(nil, "key-%d", e.n), filepath.Join(e.dir, "key"), e.key)
}

// documents returns the documents in the order in which they were created.
func (e *elasticSystem) documents(ctx context.Context) (all []elastic.Operation, err error) {
	key, err := os.ReadFile(e.key)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.addr, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "ApiKey "+string(key))
	resp, err := caller.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("answered %d", resp.StatusCode)
	}
	return all, json.NewDecoder(resp.Body).Decode(&all)
}

// stored returns the numbers of the documents.
func (e *elasticSystem) stored(ctx context.Context) (numbers []int, err error) {
	all, err := e.documents(ctx)
	for _, o := range all {
		var document struct{ N int }
		if err := json.Unmarshal(o.Document, &document); err != nil {
			return nil, err
		}
		numbers = append(numbers, document.N)
	}
	return numbers, err
}

func (e *elasticSystem) settings(more map[string]string) func(addr string) map[string]string {
	return func(addr string) map[string]string {
		all := map[string]string{"url": "http://" + addr, "index": "ledger", "auth.apiKey": "${file:" + e.key + "}",
			"timeout": "2s", "retry.timeout": "1s"}
		for name, value := range more {
			all[name] = value
		}
		return all
	}
}

// TestElasticsearchDestination writes documents to a server that keeps each id once: exactly once to an index, and to a
// data stream.
func TestElasticsearchDestination(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]map[string]string{"index": {}, "stream": {"dataStream": "true"}} {
		t.Run(name, func(t *testing.T) {
			load.Parallel(t, load.Agent+load.Server)
			kill.RunDestination(t, kill.Destination{
				Plugin: "builtin:elasticsearch", Once: true,
				System: func(t *testing.T, dir string) *kill.System {
					e := startElastic(t, dir)
					return &kill.System{Addr: e.addr, Server: e, Rotate: e.rotate, Stored: e.stored,
						Settings: e.settings(more)}
				},
			})
		})
	}
}

// TestElasticsearchExample runs the example of the connector's page, with the URL and the paths of the test.
func TestElasticsearchExample(t *testing.T) {
	load.Parallel(t, load.Agent+load.Server)
	a := agenttest.Start(t, "")
	e := startElastic(t, t.TempDir())
	file := example(t, "plugins/builtin/elasticsearch/README.md")
	file = replace(t, file, "https://search.example.com:9200", "http://"+e.addr)
	file = replace(t, file, "/etc/conduit/elastic-key", e.key)
	file = replace(t, file, "path: /var/log/app.log", "path: "+a.Path("app.log"))
	if err := os.WriteFile(a.Path("app.log"), []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.Save("logs.yaml", file)
	var all []elastic.Operation
	a.Wait("both documents", func() bool {
		all, _ = e.documents(t.Context())
		return len(all) == 2
	})
	for i, line := range []string{"one", "two"} {
		if o := all[i]; o.Kind != "create" || o.Index != "logs-app-default" ||
			!bytes.Contains(o.Document, []byte(`"message":"`+line+`"`)) || !strings.Contains(string(o.Document), "@timestamp") {
			t.Errorf("document %d is %+v", i, o)
		}
	}
}
