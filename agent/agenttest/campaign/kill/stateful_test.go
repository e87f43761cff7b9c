package kill_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/built"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/processor/wasm"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/spoollog"
	"github.com/conduit-agent/conduit/spec"
)

// statefulChains are the processors that keep state or hold records. Processors that drop duplicates get every record
// twice.
var statefulChains = map[string]struct {
	processors []spec.Processor
	unordered  bool
	module     bool // they need the module contract
}{
	"dedupe": {processors: []spec.Processor{twice,
		{ID: "dedupe", Plugin: "dedupe", Settings: map[string]string{"key": ".Payload.After.n"}, Workers: 1}}},
	"aggregate": {processors: []spec.Processor{{ID: "aggregate", Plugin: "aggregate", Workers: 1,
		Settings: map[string]string{
			"key": ".Payload.After.n", "window.size": "50ms", "fields.text": "last(.Payload.After.text)"}},
		// by the text of the key
		{ID: "no-key", Plugin: "field.exclude", Settings: map[string]string{"fields": ".Key"}, Workers: 1}},
		unordered: true},
	"throttle": {processors: []spec.Processor{{ID: "throttle", Plugin: "throttle",
		Settings: map[string]string{"rate": "40", "interval": "10ms"}, Workers: 1}}},
	"javascript": {processors: []spec.Processor{twice, {ID: "script", Plugin: "custom.javascript", Workers: 1,
		Settings: map[string]string{
			"script": "const seen = new Set();\nfunction process(rec) {\n  const n = rec.Payload.After.n;\n  if " +
				"(seen.has(n)) return null;\n  seen.add(n);\n  return rec;\n}\n"}}}},
	// its memory survives an answer that is an error
	"module": {module: true, processors: []spec.Processor{twice, {ID: "module", Plugin: "contract", Workers: 1,
		Settings: map[string]string{"mode": "dedupe"}}}},
}

// contract is a module, and the directory for its compiled code in an agent. Compiling it takes longer than a flow
// waits.
type contract struct{ path, compiled string }

func newContract(t *testing.T) contract {
	dir := t.TempDir()
	c := contract{path: filepath.Join(dir, "contract.wasm")}
	if err := built.Binary(c.path, "github.com/conduit-agent/conduit/plugins/processor/wasm/testdata/contract",
		"GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0"); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.compiled, err = built.Modules("kill"); err != nil {
		t.Fatal(err)
	}
	m := wasm.New(wasm.Options{Dir: dir, CacheDir: c.compiled})
	m.Rescan(t.Context())
	if all := m.Plugins(); len(all) != 1 {
		t.Fatalf("the module is not one: %+v", m.Problems())
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// with returns a function that starts a system whose agent has the module.
func (c contract) with(start func(*testing.T, string) *kill.System) func(*testing.T, string) *kill.System {
	return func(t *testing.T, dir string) *kill.System {
		processors := filepath.Join(dir, "processors")
		err := os.CopyFS(filepath.Join(dir, "conduit.db.modules"), os.DirFS(c.compiled))
		if err == nil {
			err = os.CopyFS(processors, os.DirFS(filepath.Dir(c.path)))
		}
		if err == nil {
			err = os.Chtimes(filepath.Join(processors, "contract.wasm"), time.Time{}, time.Now().Add(-time.Hour))
		}
		if err != nil {
			t.Fatal(err)
		}
		return start(t, dir)
	}
}

var twice = spec.Processor{ID: "twice", Plugin: "clone", Settings: map[string]string{"count": "1"}, Workers: 1}

// statefulSystem is the destination behind the processors.
type statefulSystem struct {
	plugin    string
	server    bool // it needs a server
	refused   bool
	unordered bool
	system    func(t *testing.T, dir string) *kill.System
}

const asJSON = "{{ toJson .Payload.After }}"

var statefulSystems = map[string]statefulSystem{
	"file": {plugin: "file", system: func(_ *testing.T, dir string) *kill.System {
		path := filepath.Join(dir, "out.jsonl")
		return &kill.System{
			Settings: func(string) map[string]string {
				return map[string]string{"path": path, "sdk.record.format": "template",
					"sdk.record.format.options": asJSON}
			},
			Stored: func(ctx context.Context) ([]int, error) { return rotatedNumbers(ctx, path) },
		}
	}},
	"spool": {plugin: "spool", system: func(_ *testing.T, dir string) *kill.System {
		path := filepath.Join(dir, "spool")
		return &kill.System{
			Settings: func(string) map[string]string { return map[string]string{"path": path} },
			Stored:   func(context.Context) ([]int, error) { return spooledNumbers(path) },
		}
	}},
	"dead letters": {plugin: "file", refused: true, unordered: true,
		system: func(_ *testing.T, dir string) *kill.System {
			return &kill.System{
				Settings: func(string) map[string]string {
					return map[string]string{"path": filepath.Join(dir, "out.jsonl"), "sdk.record.format": "template",
						"sdk.record.format.options": `{{ fail "no" }}`}
				},
				Stored: func(ctx context.Context) ([]int, error) { return deadLetterNumbers(ctx, dir) },
			}
		}},
	"sqlite": {plugin: "sqlite", system: func(t *testing.T, dir string) *kill.System {
		f := newSQLite(t, dir, "CREATE TABLE ledger (n INTEGER, text TEXT)")
		return &kill.System{Stored: f.stored, Settings: func(string) map[string]string {
			return map[string]string{"path": f.path, "table": "ledger", "positionTable": "conduit_positions",
				"timeout": "30s"}
		}}
	}},
	"http": {plugin: "http", server: true, system: func(t *testing.T, dir string) *kill.System {
		a := startAPI(t, dir)
		return &kill.System{Addr: a.addr, Server: a, Stored: a.stored, Settings: func(addr string) map[string]string {
			return map[string]string{"url": "http://" + addr + "/", "auth.token": "${file:" + a.token + "}",
				"timeout": "2s", "body.format": "single", "retry.timeout": "1s",
				"sdk.record.format": "template", "sdk.record.format.options": asJSON}
		}}
	}},
	"redis": {plugin: "redis", server: true, system: func(t *testing.T, dir string) *kill.System {
		r := startRedis(t, dir)
		return &kill.System{
			Addr: r.Addr, Server: r, Stored: func(ctx context.Context) ([]int, error) {
				return stored(r.elements(ctx))
			},
			Settings: r.settings(map[string]string{"key": "out", "type": "list", "positionKey": "positions",
				"retry.timeout": "1s", "sdk.record.format": "template", "sdk.record.format.options": asJSON}),
		}
	}},
	"nats": {plugin: "nats", server: true, system: func(t *testing.T, dir string) *kill.System {
		s := startNATS(t, dir)
		return &kill.System{Addr: s.Addr, Server: s, Stored: s.stored,
			Settings: s.settings("subject", "ledger", "retry.timeout", "1s", "sdk.record.format", "template",
				"sdk.record.format.options", asJSON)}
	}},
	"kafka": {plugin: "kafka", server: true, system: func(t *testing.T, dir string) *kill.System {
		k := startKafka(t, dir)
		return &kill.System{Addr: k.Addr, Server: k, Stored: k.stored,
			Settings: k.settings(map[string]string{"topic": "ledger", "partition": "0"})}
	}},
	"postgres": {plugin: "postgres", server: true, system: func(t *testing.T, dir string) *kill.System {
		p := startPostgres(t, server.PostgresDirs(t)[0], dir, "CREATE TABLE ledger (n int, text text, written "+
			"bigserial)")
		return &kill.System{Addr: p.Addr, Server: p, Stored: p.stored,
			Settings: p.settings(map[string]string{"table": "ledger", "positionTable": "conduit_positions"})}
	}},
	"mysql": {plugin: "mysql", server: true, system: func(t *testing.T, dir string) *kill.System {
		d := withShop(t, server.StartMariaDB(t), dir, "CREATE TABLE ledger (written bigint AUTO_INCREMENT PRIMARY "+
			"KEY, n int, text text)")
		return &kill.System{Addr: d.Addr, Server: d,
			Settings: d.settings(map[string]string{"table": "ledger", "positionTable": "conduit_positions"}),
			Stored: func(ctx context.Context) ([]int, error) {
				return numbersOf(ctx, d.db, "SELECT n FROM shop.ledger ORDER BY written")
			}}
	}},
}

// TestStateful kills and stops the agent while records pass through processors that keep state or hold records, on
// their way to each kind of destination or to the dead-letter queue. No record is lost, whatever a processor remembers.
func TestStateful(t *testing.T) {
	t.Parallel()
	module := newContract(t)
	for name, chain := range statefulChains {
		for behind, d := range statefulSystems {
			for _, place := range []string{"pipeline", "destination"} {
				if !kill.All() && (d.server || place == "destination") {
					continue
				}
				weight := load.Agent / 2 // a process that is repeatedly killed mostly waits for its start and for syncs
				if d.server {
					weight += load.Server / 2
				}
				t.Run(name+" of the "+place+" and "+behind, func(t *testing.T) {
					load.Parallel(t, weight)
					system := d.system
					if chain.module {
						system = module.with(system)
					}
					kill.RunDestination(t, kill.Destination{
						Plugin: "builtin:" + d.plugin, Processors: chain.processors, Shared: place == "pipeline",
						Unordered: chain.unordered || d.unordered, Refused: d.refused, Times: 4,
						System: system, Skip: otherFaults, Reread: true,
					})
				})
			}
		}
	}
}

// otherFaults are covered by the tests of the destinations. The other faults end the run of a pipeline, and the next
// run begins in the same process.
var otherFaults = map[kill.Fault]string{}

func init() {
	for _, f := range []kill.Fault{kill.None, kill.ServerRestarted, kill.ConnectionRefused, kill.ConnectionDelayed,
		kill.ConnectionStalled, kill.ConnectionHalfOpen, kill.CredentialsRotated, kill.Everything} {
		otherFaults[f] = "the test of the destination makes it"
	}
}

// spooledNumbers returns the numbers of the records in a spool that is in use.
func spooledNumbers(path string) (all []int, err error) {
	err = spoollog.Walk(path, func(_ uint64, r *record.Record) error {
		text, err := r.After.AppendJSON(nil)
		if err != nil {
			return err
		}
		var payload struct{ N int }
		if err := json.Unmarshal(text, &payload); err != nil {
			return err
		}
		all = append(all, payload.N)
		return nil
	}, func(spoollog.Damage) {})
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return all, err
}

// deadLetterNumbers returns the numbers of the dead letters of an agent.
func deadLetterNumbers(ctx context.Context, dir string) (all []int, err error) {
	path := filepath.Join(dir, "conduit.db.dead-letters")
	if _, err := os.Stat(path); err != nil {
		return nil, nil
	}
	db, err := sql.Open("sqlite3", "file:"+path+"?mode=ro&_busy_timeout=10000")
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(ctx, "SELECT record FROM bodies ORDER BY id")
	if err != nil {
		if strings.Contains(err.Error(), "no such table") {
			return nil, nil
		}
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var body []byte
		if err := rows.Scan(&body); err != nil {
			return nil, err
		}
		var l kill.Line
		if err := json.Unmarshal(body, &l); err != nil {
			return nil, err
		}
		n, err := kill.NumberOf(&l)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, rows.Err()
}
