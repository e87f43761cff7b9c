package wasm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/built"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/processor/wasm"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// The modules for the tests, and a shared cache of compiled code.
var contractModule, sdkModule, cacheDir string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "wasm")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		contractModule, sdkModule = build(dir, "contract"), build(dir, "sdk")
		if cacheDir, err = built.Modules("wasm"); err != nil {
			panic(err)
		}
		wait.CollectLess()
		code := m.Run()
		if err := goleak.Find(goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"),
			goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop")); err != nil {
			fmt.Println(err)
			return 1
		}
		return code
	}())
}

func build(dir, name string) string {
	path := filepath.Join(dir, name+".wasm")
	if err := built.Binary(path, "github.com/conduit-agent/conduit/plugins/processor/wasm/testdata/"+name,
		"GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0"); err != nil {
		panic(err)
	}
	return path
}

// journal is a log that tests can read while it is written.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.String()
}

func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// newModules returns the modules of a directory with these files, by name.
func newModules(t testing.TB, o wasm.Options, files map[string]string) *wasm.Modules {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.CacheDir == "" {
		o.CacheDir = cacheDir
	}
	for name, from := range files {
		install(t, filepath.Join(o.Dir, name), from)
	}
	m := wasm.New(o)
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// install copies the module from into the directory, with an older modification time, so that it does not look
// incomplete.
func install(t testing.TB, path, from string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(path+".new", b, 0o600)
	}
	if err == nil {
		err = os.Chtimes(path+".new", time.Now(), time.Now().Add(-time.Hour))
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// find returns the processor with a name.
func find(t testing.TB, m *wasm.Modules, name string) sdk.ProcessorPlugin {
	t.Helper()
	m.Rescan(t.Context())
	for _, p := range m.Plugins() {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no processor %s among %+v; problems: %+v", name, m.Plugins(), m.Problems())
	panic("unreachable")
}

type setup struct {
	settings map[string]string
	log      *slog.Logger
	schemas  schema.Registry
}

// open returns an instance that is ready to process.
func open(t testing.TB, plugin sdk.ProcessorPlugin, s setup) sdk.Processor {
	t.Helper()
	p, err := configure(t, plugin, s)
	if err == nil {
		err = p.Open(envContext(t, s))
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func configure(t testing.TB, plugin sdk.ProcessorPlugin, s setup) (sdk.Processor, error) {
	p := plugin.New()
	t.Cleanup(func() {
		if err := p.Teardown(context.Background()); err != nil {
			t.Log("teardown:", err)
		}
	})
	params := p.Parameters()
	if errs := params.Check(s.settings); len(errs) > 0 {
		return p, errs[0]
	}
	return p, p.Configure(envContext(t, s), params.ApplyDefaults(s.settings))
}

func envContext(t testing.TB, s setup) context.Context {
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return sdk.WithEnv(t.Context(), &sdk.Env{ProcessorID: "pipe:proc", Logger: s.log, Schemas: s.schemas})
}

// process passes one record per text to the processor, and returns their fates and the resulting records.
func process(t testing.TB, p sdk.Processor, texts ...string) (fates []sdk.Fate, records []record.Record) {
	t.Helper()
	fates, records, err := tryProcess(t.Context(), p, texts...)
	if err != nil {
		t.Fatal(err)
	}
	return fates, records
}

func tryProcess(ctx context.Context, p sdk.Processor, texts ...string) ([]sdk.Fate, []record.Record, error) {
	records := make([]record.Record, len(texts))
	for i, text := range texts {
		records[i] = record.Record{Position: record.Position(fmt.Sprint(i)), Operation: record.OperationCreate,
			After: record.Raw([]byte(text))}
	}
	b := sdk.NewProcessBatch(nil, records, nil)
	err := p.Process(ctx, b)
	fates := b.Fates()
	if fates == nil {
		fates = make([]sdk.Fate, len(texts))
	}
	return fates, records, err
}

func after(r record.Record) string {
	b, _ := r.After.Raw()
	return string(b)
}

func TestSpecification(t *testing.T) {
	m := newModules(t, wasm.Options{}, map[string]string{"a": contractModule, "b.wasm": sdkModule})
	p := find(t, m, "contract")
	if p.Summary != "A test." || p.Description != "It does what mode says." || p.Version != "v1.2.3" ||
		p.Author != "test" {
		t.Errorf("got %+v", p)
	}
	params := p.New().Parameters()
	if q := params["mode"]; q.Default != "prefix" || q.Type != sdk.TypeString || len(q.Validations) != 1 ||
		q.Validations[0].Type != sdk.ValidationRequired {
		t.Errorf("mode is %+v", q)
	}
	if _, ok := params["sdk.egress.allow"]; !ok {
		t.Errorf("there is no sdk.egress.allow in %v", params)
	}
	q := find(t, m, "with-sdk").New().Parameters()["prefix"]
	if q.Default != "hello, " || q.Description != "What to put before the payload." || len(q.Validations) != 1 ||
		q.Validations[0] != (sdk.Validation{Type: sdk.ValidationExclusion, Value: "x"}) {
		t.Errorf("prefix is %+v", q)
	}
	if len(m.Problems()) > 0 {
		t.Errorf("problems are %+v", m.Problems())
	}
}

func TestResults(t *testing.T) {
	p := open(t, find(t, newModules(t, wasm.Options{}, map[string]string{"a": contractModule}), "contract"), setup{})
	fates, records := process(t, p, "one", "filter", "error", "unset", "split a b", "split ",
		strings.Repeat("x", 100_000))
	for i, want := range []sdk.FateKind{sdk.Kept, sdk.Filtered, sdk.Refused, sdk.Refused, sdk.Replaced, sdk.Filtered,
		sdk.Kept} {
		if fates[i].Kind != want {
			t.Errorf("fate of record %d is %+v, want %v", i, fates[i], want)
		}
	}
	if after(records[0]) != "hello, one" || len(after(records[6])) != 100_007 || string(records[0].Position) != "0" ||
		records[0].Operation != record.OperationCreate {
		t.Errorf("records are %.300v", records)
	}
	if got := fates[2].Err.Error(); got != "a bad record" {
		t.Errorf("error is %q", got)
	}
	if pieces := fates[4].Pieces; len(pieces) != 2 || after(pieces[1]) != "b" || string(pieces[1].Position) != "4" {
		t.Errorf("pieces are %+v", pieces)
	}
}

// A record that passes through a module keeps everything that the contract can express.
func TestRecordsSurvive(t *testing.T) {
	t.Parallel()
	want := record.Record{Position: record.Position("p"), Operation: record.OperationSnapshot,
		Metadata: record.NewMetadata(map[string]string{"a": "b"}), Key: record.Raw([]byte{0, 255}),
		Before: record.Structured(map[string]any{}), After: record.Structured(map[string]any{"n": nil, "f": 1.5,
			"b": true, "s": "é", "l": []any{1.0, map[string]any{"x": "y"}}})}
	m := newModules(t, wasm.Options{}, map[string]string{"a": contractModule, "b": sdkModule})
	for name, change := range map[string]func(*record.Record){
		"contract": func(r *record.Record) { r.Metadata.Set("calls", "1") },
		"with-sdk": func(r *record.Record) { m, _ := r.After.Structured(); m["seen"] = true },
	} {
		records := []record.Record{want.Clone()}
		b := sdk.NewProcessBatch(nil, records, nil)
		if err := open(t, find(t, m, name), setup{}).Process(t.Context(), b); err != nil || b.Fates() != nil &&
			b.Fates()[0].Kind != sdk.Kept {
			t.Fatal(err, b.Fates())
		}
		wanted := want.Clone()
		change(&wanted)
		if !records[0].Equal(wanted) {
			t.Errorf("%s: got %v, want %v", name, records[0].Map(), wanted.Map())
		}
	}
}

// If a module answers with fewer results, it gets the remaining records again; more results than records, or none at
// all, are an error.
func TestCounts(t *testing.T) {
	plugin := find(t, newModules(t, wasm.Options{}, map[string]string{"a": contractModule}), "contract")
	p := open(t, plugin, setup{settings: map[string]string{"mode": "short"}})
	_, records := process(t, p, "a", "b", "c", "d", "e")
	for i, want := range []string{"1", "1", "2", "2", "3"} {
		if got := records[i].Metadata.Get("calls"); got != want {
			t.Errorf("record %d was processed by call %s, want %s", i, got, want)
		}
	}
	for _, mode := range []string{"many", "none"} {
		p := open(t, plugin, setup{settings: map[string]string{"mode": mode}})
		if _, _, err := tryProcess(t.Context(), p, "a", "b"); err == nil ||
			!strings.Contains(err.Error(), "was given 2 records and returned") {
			t.Errorf("%s: error is %v", mode, err)
		}
	}
}

// A guest that ends is restarted. The record that ended it is refused; other records are unaffected.
func TestDeadGuests(t *testing.T) {
	t.Parallel()
	plugin := find(t, newModules(t, wasm.Options{}, map[string]string{"a": contractModule}), "contract")
	for text, want := range map[string]string{
		"die":  "it exited with code 2: panic: the guest cannot bear this record",
		"exit": "it exited with code 7",
		"fail": "cannot do any of these",
	} {
		var log journal
		p := open(t, plugin, setup{log: log.logger()})
		fates, records := process(t, p, "a", text, "b", text)
		if fates[0].Kind != sdk.Kept || fates[2].Kind != sdk.Kept || after(records[0]) != "hello, a" ||
			after(records[2]) != "hello, b" {
			t.Errorf("%s: fates are %+v, records are %v", text, fates, records)
		}
		for _, i := range []int{1, 3} {
			if fates[i].Kind != sdk.Refused || !strings.Contains(fates[i].Err.Error(), want) {
				t.Errorf("%s: fate of %d is %+v, want %q", text, i, fates[i], want)
			}
		}
		if _, records := process(t, p, "after"); after(records[0]) != "hello, after" {
			t.Errorf("%s: then it makes %v", text, records)
		}
		if n := strings.Count(log.String(), "msg=opened"); text == "die" && n != 4 {
			t.Errorf("it was opened %d times, want 4", n)
		}
	}
}

// A guest that returns an error may already have stored in its memory that it has seen the records. A new guest gets
// them.
func TestFailedGuestsAreNotAskedAgain(t *testing.T) {
	t.Parallel()
	plugin := find(t, newModules(t, wasm.Options{}, map[string]string{"a": contractModule}), "contract")
	p := open(t, plugin, setup{settings: map[string]string{"mode": "dedupe"}})
	for _, texts := range [][]string{{"a", "b", "b"}, {"c", "d", "c", "e"}} { // the second call fails
		fates, _ := process(t, p, texts...)
		known := map[string]bool{}
		for i, text := range texts {
			want := sdk.Kept
			if known[text] {
				want = sdk.Filtered
			}
			known[text] = true
			if fates[i].Kind != want {
				t.Errorf("%v: the fate of record %d is %+v, want %v", texts, i, fates[i], want)
			}
		}
	}
	if fates, _ := process(t, p, "e"); fates[0].Kind != sdk.Filtered {
		t.Errorf("a record that was kept is %+v when it comes again, want it filtered", fates[0])
	}
}

// A guest that hangs is stopped at its timeout.
func TestTimeLimit(t *testing.T) {
	p := open(t, find(t, newModules(t, wasm.Options{}, map[string]string{"a": contractModule}), "contract"), setup{})
	for _, text := range []string{"loop", "sleep"} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if _, _, err := tryProcess(ctx, p, text); err != context.DeadlineExceeded {
			t.Errorf("%s: error is %v", text, err)
		}
		cancel()
		if _, records := process(t, p, "after"); after(records[0]) != "hello, after" {
			t.Errorf("%s: then it makes %v", text, records)
		}
	}
}

// A record at which guests hang is refused, however large the batch is, and the other records pass.
func TestHangingRecords(t *testing.T) {
	p := open(t, find(t, newModules(t, wasm.Options{}, map[string]string{"a": contractModule}), "contract"), setup{})
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{Logger: slog.New(slog.DiscardHandler), TimeLimit: 2 * time.Second})
	fates, records, err := tryProcess(ctx, p, "a", "b", "loop", "c")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"hello, a", "hello, b", "", "hello, c"} {
		if refused := fates[i].Kind == sdk.Refused; refused != (want == "") || !refused && after(records[i]) != want {
			t.Errorf("fate of %d is %+v, the record %v", i, fates[i], records[i])
		}
	}
	if err := fates[2].Err; err == nil ||
		!strings.Contains(err.Error(), "it took longer than 2s (processors.timeout)") {
		t.Errorf("refused with %v", err)
	}
}

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	p := open(t, find(t, newModules(t, wasm.Options{Memory: 64 << 20}, map[string]string{"a": contractModule}),
		"contract"), setup{})
	fates, _ := process(t, p, "grow 5", "grow 200")
	if fates[0].Kind != sdk.Kept || fates[1].Kind != sdk.Refused ||
		!strings.Contains(fates[1].Err.Error(), "out of memory") {
		t.Errorf("fates are %+v", fates)
	}
}

// The host keeps only a bounded amount of memory, log lines and schemas for a guest: a record that needs more is
// refused, and the next record is unaffected.
func TestHostileGuests(t *testing.T) {
	t.Parallel()
	plugin := find(t, newModules(t, wasm.Options{Bounds: &schema.Bounds{Schemas: 5}},
		map[string]string{"a": contractModule}), "contract")
	var log journal
	p := open(t, plugin, setup{log: log.logger(), schemas: &schema.Memory{}})
	for text, want := range map[string]string{
		"metadata 20000":  "its metadata has 20001 entries, more than 10000",
		"pieces 300000":   "bytes of memory when it is decoded",
		"long 70000000":   "more than 67108864",
		"refuse 10000000": "xxx",
	} {
		fates, records := process(t, p, text, "one")
		if fates[0].Kind != sdk.Refused || fates[0].Err == nil || !strings.Contains(fates[0].Err.Error(), want) ||
			len(fates[0].Err.Error()) > 5000 {
			t.Errorf("%s: fate is %v %.300v", text, fates[0].Kind, fates[0].Err)
		}
		if fates[1].Kind != sdk.Kept || after(records[1]) != "hello, one" {
			t.Errorf("%s: the next record is %v %v", text, fates[1], records[1].Map())
		}
	}
	_, records := process(t, p, "schemas 5", "schemas 6")
	if records[0].Metadata.Get("schemas") != "0" || records[1].Metadata.Get("schemas") != "4294967290" ||
		!strings.Contains(log.String(), "connectors.max-schemas") {
		t.Errorf("schemas: %v, %v", records[0].Metadata, records[1].Metadata)
	}
	process(t, p, "print 100")
	if n := len(log.String()); n > 2<<20 {
		t.Errorf("6 MB of output make %d bytes of log", n)
	}
}

func TestRandomnessIsReal(t *testing.T) {
	plugin := find(t, newModules(t, wasm.Options{}, map[string]string{"a": contractModule}), "contract")
	seen := map[string]bool{}
	for range 2 {
		_, records := process(t, open(t, plugin, setup{}), "random", "random")
		seen[records[0].Metadata.Get("random")], seen[records[1].Metadata.Get("random")] = true, true
	}
	if len(seen) != 4 || seen[""] {
		t.Errorf("got %v", seen)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("SECRET", "x")
	p := open(t, find(t, newModules(t, wasm.Options{}, map[string]string{"a": contractModule}), "contract"),
		setup{log: (&journal{}).logger()})
	_, records := process(t, p, "environment")
	got := records[0].Metadata.Map()
	if got["id"] != "pipe:proc" || got["level"] != "debug" || got["environment"] != "" || got["args"] != "0" ||
		!strings.Contains(got["file"], "/etc/passwd") || got["year"] != fmt.Sprint(time.Now().UTC().Year()) {
		t.Errorf("got %v", got)
	}
}

func TestLog(t *testing.T) {
	var log journal
	open(t, find(t, newModules(t, wasm.Options{}, map[string]string{"a": contractModule}), "contract"),
		setup{log: log.logger()})
	for _, want := range []string{`level=INFO msg=opened mode=prefix`, `level=INFO msg="plain text"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("there is no %s in %s", want, log.String())
		}
	}
}

func TestSchemas(t *testing.T) {
	p := open(t, find(t, newModules(t, wasm.Options{}, map[string]string{"a": contractModule, "b": sdkModule}),
		"contract"), setup{schemas: &schema.Memory{}})
	_, records := process(t, p, "schema", "schema")
	want := `s 1 {"type":"record","name":"r","fields":[{"name":"a","type":"long"}]} 4294967289`
	if got := records[0].Metadata.Get("schema"); got != want {
		t.Errorf("got %s", got)
	}
}

func TestSettings(t *testing.T) {
	m := newModules(t, wasm.Options{}, map[string]string{"a": contractModule, "b": sdkModule})
	for _, test := range []struct {
		name, setting, value, want string
	}{
		{"contract", "mode", "badconfig", "config invalid: mode"},
		{"contract", "other", "x", `"other"`},
		{"with-sdk", "prefix", "x", `"prefix"`},
		{"contract", "sdk.egress.allow", "http://example.com", "sdk.egress.allow"},
	} {
		_, err := configure(t, find(t, m, test.name), setup{settings: map[string]string{test.setting: test.value}})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: error is %v", test, err)
		}
	}
}

// A module built with our SDK behaves like the same processor in the agent.
func TestOurSDK(t *testing.T) {
	var log journal
	m := newModules(t, wasm.Options{Egress: wasm.EgressPolicy{Enabled: true}}, map[string]string{"b": sdkModule})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Answer", r.Header.Get("X-Test"))
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, strings.Repeat("a", 3000))
	}))
	defer server.Close()
	p := open(t, find(t, m, "with-sdk"), setup{log: log.logger(), schemas: &schema.Memory{},
		settings: map[string]string{"prefix": "hi:", "sdk.egress.allow": server.URL}})
	fates, records := process(t, p, "one", "filter", "refuse", "clone", "schema", server.URL)
	for i, want := range []sdk.FateKind{sdk.Kept, sdk.Filtered, sdk.Refused, sdk.Replaced, sdk.Kept, sdk.Kept} {
		if fates[i].Kind != want {
			t.Errorf("fate of record %d is %+v, want %v", i, fates[i], want)
		}
	}
	if after(records[0]) != "hi:one" || fates[2].Err.Error() != "refused" || len(fates[3].Pieces) != 2 ||
		after(fates[3].Pieces[1]) != "clone" {
		t.Errorf("fates are %+v, records are %v", fates, records)
	}
	if got := records[4].Metadata; got.Get("schema") != `s1{"type":"record","name":"r","fields":[]}<nil>` ||
		got.Get("missing") != schema.ErrSubjectNotFound.Error() {
		t.Errorf("schemas: %v", got)
	}
	if got := records[5].Metadata.Get("http"); got != "201"+strings.Repeat("a", 3000)+"[a] <nil>" {
		t.Errorf("answer is %.100s", got)
	}
	if !strings.Contains(log.String(), `level=WARN msg=opened prefix=hi:`) {
		t.Errorf("log is %s", log.String())
	}
	for text, want := range map[string]string{"panic": "panic: oh no", "break": "broken",
		"hold": "module cannot hold records"} {
		if fates, _ := process(t, p, text); fates[0].Kind != sdk.Refused ||
			!strings.Contains(fates[0].Err.Error(), want) {
			t.Errorf("%s: fate is %+v", text, fates[0])
		}
	}
}

func TestEgress(t *testing.T) {
	var authorization string
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) {
		authorization = r.Header.Get("Authorization")
		fmt.Fprint(w, "ok ", r.Header.Get("X-Mine"))
	})
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://example.com/", http.StatusFound)
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, strings.Repeat("x", 5000)) })
	hang := make(chan struct{})
	mux.HandleFunc("/hang", func(w http.ResponseWriter, r *http.Request) { <-hang })
	server := httptest.NewServer(mux)
	defer server.Close()
	defer close(hang)
	other := httptest.NewServer(mux)
	defer other.Close()
	t.Setenv("CONDUIT_SECRET_MY_KEY", "Bearer s3cret")
	_, port, _ := net.SplitHostPort(other.Listener.Addr().String())

	var log journal
	policy := wasm.EgressPolicy{Enabled: true, MaxResponseBytes: 4000, SecretRefs: []string{"my-key"},
		Timeout: time.Second}
	plugin := find(t, newModules(t, wasm.Options{Egress: policy}, map[string]string{"a": contractModule}), "contract")
	p := open(t, plugin, setup{log: log.logger(), settings: map[string]string{
		"sdk.egress.allow":      server.URL + ",localhost:" + port + ",nowhere.invalid",
		"sdk.egress.secretRefs": "my-key,other"}})
	for text, want := range map[string]string{
		server.URL + "/ok X-Mine:v":              "200 ok v",
		server.URL + "/ok my-key":                "200 ok ",
		server.URL + "/ok other":                 "code 4294967285",
		server.URL + "/ok Host:x":                "code 4294967284",
		server.URL + "/ok Proxy-Authorization:x": "code 4294967284",
		server.URL + "/ok Authorization:x":       "code 4294967284",
		server.URL + "/redirect":                 "302 ",
		server.URL + "/large":                    "code 4294967281",
		server.URL + "/hang":                     "code 4294967282",
		other.URL + "/ok":                        "code 4294967285",
		"http://169.254.169.254/":                "code 4294967285",
		"https://localhost:" + port + "/ok":      "code 4294967285",
		"https://nowhere.invalid/":               "code 4294967283",
		"http://user:password@" + server.URL[7:]: "code 4294967284",
	} {
		_, records := process(t, p, text)
		if got := records[0].Metadata.Get("http"); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %.200s, want %s", text, got, want)
		}
	}
	if authorization != "Bearer s3cret" && authorization != "" {
		t.Errorf("authorization is %q", authorization)
	}
	if strings.Contains(log.String(), "s3cret") || strings.Contains(log.String(), "password") {
		t.Error("the log has a secret")
	}
	if !strings.Contains(log.String(), "egress call denied") ||
		!strings.Contains(log.String(), `msg="egress call" decision=allowed method=GET`) {
		t.Errorf("log is %s", log.String())
	}
}

// A module cannot request permissions that the agent does not grant.
func TestEgressIsBoundedByTheAgent(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a request arrived")
	}))
	defer server.Close()
	for name, c := range map[string]struct {
		policy wasm.EgressPolicy
		want   string
	}{
		"not enabled":            {wasm.EgressPolicy{}, "code 4294967286"},
		"outside of the ceiling": {wasm.EgressPolicy{Enabled: true, Allow: []string{"example.com"}}, "code 4294967285"},
	} {
		plugin := find(t, newModules(t, wasm.Options{Egress: c.policy}, map[string]string{"a": contractModule}),
			"contract")
		_, records := process(t, open(t, plugin, setup{settings: map[string]string{"sdk.egress.allow": server.URL}}),
			server.URL+"/ok")
		if got := records[0].Metadata.Get("http"); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// Files are added, changed and removed while processors run.
func TestDirectoryIsLive(t *testing.T) {
	dir := t.TempDir()
	var log journal
	changed := make(chan struct{}, 100)
	m := newModules(t, wasm.Options{Dir: dir, Log: log.logger(), Interval: 10 * time.Millisecond, Changed: func() {
		changed <- struct{}{}
	}}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	defer func() { cancel(); <-ended }()

	path := filepath.Join(dir, "it")
	install(t, path, contractModule)
	<-changed
	p := open(t, find(t, m, "contract"), setup{})
	install(t, path, sdkModule)
	<-changed
	if find(t, m, "with-sdk"); len(m.Plugins()) != 1 {
		t.Errorf("processors are %+v", m.Plugins())
	}
	if _, records := process(t, p, "old"); after(records[0]) != "hello, old" {
		t.Error("the one that runs is not what it was")
	}
	// A guest that ends now is restarted from the new file.
	if _, _, err := tryProcess(t.Context(), p, "die"); err != nil {
		t.Error(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	<-changed
	if m.Rescan(t.Context()); len(m.Plugins()) != 0 {
		t.Errorf("processors are %+v", m.Plugins())
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{"text": "no module", "empty": "\x00asm\x01\x00\x00\x00",
		".hidden": "x",
		"program": "\x00asm\x01\x00\x00\x00" + "\x01\x04\x01\x60\x00\x00" + "\x03\x02\x01\x00" +
			"\x0a\x04\x01\x02\x00\x0b"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := newModules(t, wasm.Options{Dir: dir}, map[string]string{"one": contractModule, "two": contractModule})
	find(t, m, "contract")
	var got strings.Builder
	for _, p := range m.Problems() {
		fmt.Fprintf(&got, "%s: %s\n", filepath.Base(p.Path), p.Reason)
	}
	want := `empty: it is no processor: it does not import the function conduit.command_request
program: it is no processor: it does not import the function conduit.command_request
text: cannot compile it: it is no WebAssembly module: build it with GOOS=wasip1 GOARCH=wasm
two: another file is processor contract@v1.2.3, too
`
	if got.String() != want {
		t.Errorf("got  %s\nwant %s", got.String(), want)
	}
}

// A second start neither compiles nor runs a module to learn its specification: it does not need the code.
func TestSecondStart(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	install(t, filepath.Join(dir, "it"), contractModule)
	find(t, newModules(t, wasm.Options{Dir: dir}, nil), "contract")
	if err := os.CopyFS(cache, os.DirFS(cacheDir)); err != nil {
		t.Fatal(err)
	}
	t.Parallel() // from here on, as the copied cache must not change
	code, err := filepath.Glob(filepath.Join(cache, "*", "code"))
	if err != nil || len(code) == 0 {
		t.Fatalf("the code is in %v, error %v", code, err)
	}
	for _, path := range code {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	var log journal
	find(t, newModules(t, wasm.Options{Dir: dir, CacheDir: cache, Log: log.logger()}, nil), "contract")
	if strings.Contains(log.String(), "compiled processor") {
		t.Errorf("it is compiled to be found:\n%s", log.String())
	}
}

// Cached code of a module is reused unless it is damaged: a module behaves at the second start as at the first.
func TestKeptCode(t *testing.T) {
	find(t, newModules(t, wasm.Options{}, map[string]string{"it": contractModule}), "contract") // compiles it
	for name, damage := range map[string]func(code string) error{
		"nothing":                 func(string) error { return nil },
		"a torn file of code":     func(code string) error { return os.Truncate(code, 1000) },
		"a changed byte of code":  func(code string) error { return overwrite(code, 1<<20, "?") },
		"another version of code": func(code string) error { return overwrite(code, 7, "?") },
	} {
		t.Run(name, func(t *testing.T) {
			cache, dir := t.TempDir(), t.TempDir()
			if err := os.CopyFS(cache, os.DirFS(cacheDir)); err != nil {
				t.Fatal(err)
			}
			install(t, filepath.Join(dir, "it"), contractModule)
			code, err := filepath.Glob(filepath.Join(cache, "*", "code", "wazero-*", "*"))
			if err != nil || len(code) == 0 {
				t.Fatalf("there are the files of code %v, error %v", code, err)
			}
			for _, path := range code {
				if err := damage(path); err != nil {
					t.Fatal(err)
				}
			}
			t.Parallel() // from here on, as the copied cache must not change
			for _, again := range []bool{name != "nothing", false} {
				before := filesAt(t, code)
				m := newModules(t, wasm.Options{Dir: dir, CacheDir: cache}, nil)
				if _, records := process(t, open(t, find(t, m, "contract"), setup{}),
					"x"); after(records[0]) != "hello, x" {
					t.Errorf("it makes %v", records)
				}
				same := slices.EqualFunc(before, filesAt(t, code), os.SameFile)
				if same == again {
					t.Errorf("it was compiled: %v, want %v", !same, again)
				}
			}
		})
	}
	t.Parallel()
}

func filesAt(t *testing.T, paths []string) []os.FileInfo {
	t.Helper()
	files := make([]os.FileInfo, len(paths))
	for i, path := range paths {
		var err error
		if files[i], err = os.Stat(path); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func overwrite(path string, at int64, with string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(with), at)
	return errors.Join(err, f.Close())
}

// Cached files of modules are kept while the modules are in the directory or running, and otherwise within limits of
// age and size.
func TestPruning(t *testing.T) {
	find(t, newModules(t, wasm.Options{}, map[string]string{"it": contractModule}), "contract") // compiles it
	cache, dir := compiledCache{t, t.TempDir()}, t.TempDir()
	if err := os.CopyFS(cache.dir, os.DirFS(cacheDir)); err != nil {
		t.Fatal(err)
	}
	t.Parallel() // from here on, as the copied cache must not change
	cache.age(30 * day)
	cache.keep("old", 1, 8*day)
	cache.keep("recent", 300<<20, day)
	cache.keep("large", 300<<20, 2*day)
	install(t, filepath.Join(dir, "it"), contractModule)
	m := newModules(t, wasm.Options{Dir: dir, CacheDir: cache.dir, Interval: 5 * time.Millisecond}, nil)
	p := open(t, find(t, m, "contract"), setup{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	cache.until("what is old, or too large", func(kept []string) bool {
		return len(kept) == 2 && slices.Contains(kept, "recent")
	})

	cache.age(30 * day)
	if err := os.Remove(filepath.Join(dir, "it")); err != nil {
		t.Fatal(err)
	}
	cache.until("with a module that is gone and runs", func(kept []string) bool {
		return len(kept) == 1 && !slices.Contains(kept, "recent")
	})
	cache.age(30 * day)
	if err := p.Teardown(t.Context()); err != nil {
		t.Fatal(err)
	}
	cache.until("with a module that is gone and does not run", func(kept []string) bool { return len(kept) == 0 })
}

const day = 24 * time.Hour

// compiledCache is a directory of compiled modules.
type compiledCache struct {
	t   *testing.T
	dir string
}

// keep adds an entry with a size, as a sparse file.
func (c compiledCache) keep(name string, size int64, age time.Duration) {
	path := filepath.Join(c.dir, name)
	err := os.MkdirAll(path, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(path, "code"), nil, 0o600)
	}
	if err == nil {
		err = os.Truncate(filepath.Join(path, "code"), size)
	}
	if err == nil {
		err = os.Chtimes(path, time.Now(), time.Now().Add(-age))
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// age sets the age of all entries.
func (c compiledCache) age(by time.Duration) {
	for _, name := range c.kept() {
		if err := os.Chtimes(filepath.Join(c.dir, name), time.Now(), time.Now().Add(-by)); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c compiledCache) kept() []string {
	all, err := filepath.Glob(filepath.Join(c.dir, "*"))
	if err != nil {
		c.t.Fatal(err)
	}
	for i := range all {
		all[i] = filepath.Base(all[i])
	}
	return all
}

func (c compiledCache) until(what string, done func(kept []string) bool) {
	c.t.Helper()
	wait.For(c.t, what, func() bool {
		return done(c.kept())
	}, func() string { return fmt.Sprintf("kept is %v", c.kept()) })
}

// Each worker has a separate instance.
func TestInstancesRunAtOnce(t *testing.T) {
	plugin := find(t, newModules(t, wasm.Options{}, map[string]string{"a": contractModule}), "contract")
	slow, fast := open(t, plugin, setup{}), open(t, plugin, setup{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, _, err := tryProcess(ctx, slow, "loop")
		ended <- err
	}()
	if _, records := process(t, fast, "x"); after(records[0]) != "hello, x" {
		t.Errorf("got %v", records)
	}
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Errorf("error is %v", err)
	}
}

func BenchmarkModule(b *testing.B) {
	m := newModules(b, wasm.Options{}, map[string]string{"a": contractModule, "b": sdkModule})
	for _, name := range []string{"contract", "with-sdk"} {
		plugin := find(b, m, name)
		for _, size := range []int{1, 100, 1000} {
			b.Run(fmt.Sprintf("%s/batch=%d", name, size), func(b *testing.B) {
				p := open(b, plugin, setup{})
				texts := make([]string, size)
				for i := range texts {
					texts[i] = "world"
				}
				for b.Loop() {
					if _, _, err := tryProcess(b.Context(), p, texts...); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/record")
			})
		}
	}
}
