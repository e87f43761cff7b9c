package javascript_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/processor/javascript"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// open returns the processor with the script, ready to process.
func open(t testing.TB, settings map[string]string, log *slog.Logger) sdk.Processor {
	t.Helper()
	p := javascript.Plugin().New()
	ctx := t.Context()
	if log != nil {
		ctx = sdk.WithEnv(ctx, &sdk.Env{Logger: log})
	}
	if err := p.Configure(ctx, p.Parameters().ApplyDefaults(settings)); err != nil {
		t.Fatal(err)
	}
	if err := p.Open(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Teardown(context.Background()) })
	return p
}

// process runs the script with one record, and returns the fate of the record and the resulting record.
func process(t testing.TB, script string, r record.Record) (sdk.Fate, record.Record) {
	t.Helper()
	return feed(t, open(t, map[string]string{"script": script}, nil), r)
}

func feed(t testing.TB, p sdk.Processor, r record.Record) (sdk.Fate, record.Record) {
	t.Helper()
	records := []record.Record{r}
	b := sdk.NewProcessBatch(nil, records, nil)
	if err := p.Process(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if f := b.Fates(); f != nil {
		return f[0], records[0]
	}
	return sdk.Fate{}, records[0]
}

var position = record.Position("p1")

func equal(t testing.TB, got, want record.Record) {
	t.Helper()
	if !got.Equal(want) {
		t.Errorf("got  %s\nwant %s", text(got), text(want))
	}
}

func text(r record.Record) string {
	return fmt.Sprintf("%v %q", r.Map(), r.Map())
}

// examplesCases are the cases of TestExamples.
var examplesCases = []struct {
	name, script string
	in, want     record.Record
}{{
	"metadata and a prefix",
	`function process(rec) {
			rec.Metadata["processed"] = "true";
			let text = String.fromCharCode.apply(String, rec.Payload.After);
			rec.Payload.After = RawData("hello, " + text);
			return rec;
		}`,
	record.Record{Metadata: record.Metadata{{Key: "existing-key", Value: "existing-value"}},
		After: record.Raw([]byte("world"))},
	record.Record{Metadata: record.Metadata{{Key: "existing-key", Value: "existing-value"},
		{Key: "processed", Value: "true"}},
		After: record.Raw([]byte("hello, world"))},
}, {
	"everything",
	`function process(rec) {
			rec.Operation = "update";
			rec.Metadata["returned"] = "JS";
			rec.Key = RawData("baz");
			rec.Payload.After["ccc"] = "baz";
			return rec;
		}`,
	record.Record{Operation: record.OperationCreate, Key: record.Raw([]byte("bar")),
		After: record.Structured(map[string]any{"aaa": 111, "bbb": []any{"foo", "bar"}})},
	record.Record{Operation: record.OperationUpdate, Metadata: record.Metadata{{Key: "returned", Value: "JS"}},
		Key:   record.Raw([]byte("baz")),
		After: record.Structured(map[string]any{"aaa": 111, "bbb": []any{"foo", "bar"}, "ccc": "baz"})},
}, {
	"a record of its own",
	`function process(rec) {
			var r = new Record();
			r.Operation = "delete"; r.Metadata.a = 5; r.Metadata.b = null; r.Key = StructuredData();
			r.Key.id = rec.Key.id; r.Payload.Before = rec.Payload.After;
			return r;
		}`,
	record.Record{Operation: record.OperationCreate, Key: record.Structured(map[string]any{"id": 7}),
		After: record.Structured(map[string]any{"x": "y"})},
	record.Record{Operation: record.OperationDelete,
		Metadata: record.Metadata{{Key: "a", Value: "5"}, {Key: "b", Value: ""}},
		Key:      record.Structured(map[string]any{"id": int64(7)}),
		Before:   record.Structured(map[string]any{"x": "y"})},
}, {
	"types",
	`function process(rec) {
			rec.Payload.After = { i: 1, f: 1.5, big: 1e300, s: "é", n: null, u: undefined, t: new Date(1700000000000),
				list: [1, [2, {a: true}]], raw: new Uint8Array([1, 2]), nested: { deep: { er: "x" } } };
			delete rec.Metadata.gone;
			return rec;
		}`,
	record.Record{Metadata: record.Metadata{{Key: "gone", Value: "x"}}},
	record.Record{Metadata: record.Metadata{},
		After: record.Structured(map[string]any{"i": int64(1), "f": 1.5, "big": 1e300, "s": "é", "n": nil, "u": nil,
			"t": time.UnixMilli(1700000000000), "list": []any{int64(1), []any{int64(2), map[string]any{"a": true}}},
			"raw":    []byte{1, 2},
			"nested": map[string]any{"deep": map[string]any{"er": "x"}}})},
}, {
	"nested data in place",
	`function process(rec) {
			let a = rec.Payload.After;
			a.o.x = a.o.x + 1; a.o.deep.y = "z"; a.l.push({k: a.l.length}); a.l[0].q = 1; delete a.gone;
			a.l.sort((x, y) => (x.k || 0) - (y.k || 0));
			a.copy = a.o;
			return rec;
		}`,
	record.Record{After: record.Structured(map[string]any{"gone": 1, "untouched": int32(5),
		"o": map[string]any{"x": 1, "deep": map[string]any{}},
		"l": []any{map[string]any{"k": 5}, map[string]any{"k": 3}}})},
	record.Record{After: record.Structured(map[string]any{"untouched": int32(5),
		"o":    map[string]any{"x": int64(2), "deep": map[string]any{"y": "z"}},
		"copy": map[string]any{"x": int64(2), "deep": map[string]any{"y": "z"}},
		"l":    []any{map[string]any{"k": int64(2)}, map[string]any{"k": 3}, map[string]any{"k": 5, "q": int64(1)}}})},
}, {
	"unwrapped", `function process(rec) { rec.Payload.After = rec.Payload.After.inner; return rec }`,
	record.Record{After: record.Structured(map[string]any{"inner": map[string]any{"a": 1}})},
	record.Record{After: record.Structured(map[string]any{"a": 1})},
}, {
	"text as raw data", `const process = async rec => { rec.Payload.After = "text é"; rec.Payload.Before = null; ` +
		`rec.Key = undefined; return rec }`,
	record.Record{Key: record.Raw([]byte("k")), Before: record.Raw([]byte("b"))},
	record.Record{After: record.Raw([]byte("text é"))},
}, {
	"raw data in place",
	`function process(rec) { rec.Key[0] = 65; rec.Key.push(66); rec.Metadata = {m: rec.Key.length}; return rec }`,
	record.Record{Key: record.Raw([]byte("xy"))},
	record.Record{Key: record.Raw([]byte("AyB")), Metadata: record.Metadata{{Key: "m", Value: "3"}}},
}, {
	"the same record", `function process(rec) { JSON.stringify(rec); Object.keys(rec.Payload.After); return rec }`,
	record.Record{Operation: record.OperationSnapshot,
		After: record.Structured(map[string]any{"t": time.Unix(1, 5), "o": map[string]any{"n": nil}})},
	record.Record{Operation: record.OperationSnapshot,
		After: record.Structured(map[string]any{"t": time.Unix(1, 5), "o": map[string]any{"n": nil}})},
}}

func TestExamples(t *testing.T) {
	for _, test := range examplesCases {
		t.Run(test.name, func(t *testing.T) {
			test.in.Position, test.want.Position = position, position
			fate, got := process(t, test.script, test.in.Clone()) // the script may change its input
			if fate.Kind != sdk.Kept {
				t.Fatalf("fate is %+v", fate)
			}
			equal(t, got, test.want)
		})
	}
}

func TestFilters(t *testing.T) {
	const script = `function process(rec) { if (!rec.Metadata["keepme"]) return null; return rec }`
	if fate, _ := process(t, script, record.Record{}); fate.Kind != sdk.Filtered {
		t.Errorf("without keepme: %+v", fate)
	}
	if fate, _ := process(t, script,
		record.Record{Metadata: record.Metadata{{Key: "keepme", Value: "1"}}}); fate.Kind != sdk.Kept {
		t.Errorf("with keepme: %+v", fate)
	}
	for _, script := range []string{`function process() {}`, `function process() { return undefined }`,
		`function process() { return [] }`} {
		if fate, _ := process(t, script, record.Record{}); fate.Kind != sdk.Filtered {
			t.Errorf("%s: %+v", script, fate)
		}
	}
}

func TestSplits(t *testing.T) {
	in := record.Record{Position: position, Operation: record.OperationCreate,
		Metadata: record.Metadata{{Key: "m", Value: "v"}},
		After:    record.Structured(map[string]any{"items": []any{map[string]any{"n": 1}, map[string]any{"n": 2}}})}
	before := in.Clone()
	fate, after := process(t, `function process(rec) {
		rec.Metadata.changed = "yes";
		return [rec, rec].concat(rec.Payload.After.items.map(item => {
			let r = new Record(); r.Operation = rec.Operation; r.Metadata.n = item.n; r.Payload.After = item; item.seen = true;
				return r }));
	}`, in)
	if fate.Kind != sdk.Replaced || len(fate.Pieces) != 4 {
		t.Fatalf("fate is %+v", fate)
	}
	equal(t, after, before)
	whole := before.Clone()
	whole.Metadata.Set("changed", "yes")
	whole.After = record.Structured(map[string]any{"items": []any{map[string]any{"n": 1, "seen": true},
		map[string]any{"n": 2, "seen": true}}})
	equal(t, fate.Pieces[0], whole)
	equal(t, fate.Pieces[3], record.Record{Position: position, Operation: record.OperationCreate,
		Metadata: record.Metadata{{Key: "n", Value: "2"}},
		After:    record.Structured(map[string]any{"n": 2, "seen": true})})
	// Records do not share data that a later processor may change.
	m, _ := fate.Pieces[0].After.Structured()
	m["items"].([]any)[1].(map[string]any)["n"] = 9
	equal(t, fate.Pieces[1], whole)
	equal(t, after, before)
}

func TestRefusals(t *testing.T) {
	for _, test := range []struct{ name, script, want string }{
		{"throw", "function process(rec) {\n  throw new Error('boom')\n}", "script:2:9: Error: boom"},
		{"throw text", "function process(rec) { throw 'boom' }", "boom"},
		{"reference", "function process(rec) { return foo }", "script:1:32: ReferenceError: foo is not defined"},
		{"text", "function process() { return 'x' }", "process returned string, want a record"},
		{"object", "function process() { return {} }", "no record: change the record it got"},
		{"array of objects", "function process(rec) { return [rec, {}] }", "an array in which [1] is no record"},
		{"promise", "function process() { return new Promise(() => {}) }", "a promise that nothing settles"},
		{"rejected", "async function process() { throw new Error('late') }", "Error: late"},
		{"array as payload", "function process(rec) { rec.Payload.After = [1]; return rec }",
			"script:1:37: TypeError: cannot set Payload.After: want an object, RawData, text or null, not a Array"},
		{"number as key", "function process(rec) { rec.Key = 5; return rec }",
			"TypeError: cannot set Key: want an object, RawData, text or null, not 5"},
		{"operation", "function process(rec) { rec.Operation = 'upsert'; return rec }",
			`TypeError: cannot set Operation: cannot parse operation "upsert"`},
		{"position", "function process(rec) { rec.Position = 'other'; return rec }",
			"cannot set Position: it belongs to the source"},
		{"function", "function process(rec) { rec.Payload.After = {f() {}}; return rec }",
			"cannot set Payload.After: f: a function cannot be a value of a record"},
		{"NaN", "function process(rec) { rec.Payload.After = {f: {x: NaN}}; return rec }",
			"f: x: NaN cannot be a value"},
		{"cycle", "function process(rec) { let a = {}; a.a = a; rec.Payload.After = a; return rec }",
			"nested deeper than 1000"},
		{"cycle through the record", "function process(rec) { rec.Payload.After.a = rec.Payload.After; return rec }",
			"nested deeper than 1000"},
		{"getter", "function process(rec) { rec.Payload.After = { get a() { throw new Error('get') } }; return rec }",
			"Error: get"},
		{"require", "function process(rec) { return require('/etc/passwd') }",
			`cannot require "/etc/passwd": scripts cannot load files or modules`},
		{"depth", "function process(rec) { return process(rec) }", "RangeError: calls are nested deeper than"},
		{"member", "function process(rec) { rec.payload = {}; return rec }",
			"a record has only Position, Operation, Metadata, Key and Payload"},
		{"metadata", "function process(rec) { rec.Metadata.a = {}; return rec }",
			"TypeError: cannot set Metadata.a: want text, not a Object"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := record.Record{Position: position, After: record.Structured(map[string]any{"x": 1})}
			fate, _ := process(t, test.script, in)
			if fate.Kind != sdk.Refused || !strings.Contains(fate.Err.Error(), test.want) {
				t.Errorf("fate is %+v, want a refusal with %q", fate, test.want)
			}
		})
	}
}

// A refused record is unchanged, whatever the script did before.
func TestRefusedRecordIsUnchanged(t *testing.T) {
	in := record.Record{Position: position, Metadata: record.Metadata{{Key: "a", Value: "1"}},
		Key:   record.Raw([]byte("k")),
		After: record.Structured(map[string]any{"x": 1, "o": map[string]any{"y": 1}, "l": []any{1}})}
	want := in.Clone()
	fate, got := process(t, `function process(rec) {
		rec.Metadata.a = "2"; rec.Key[0] = 1; rec.Payload.After.x = 2; rec.Payload.After.o.y = 2;
			rec.Payload.After.l.push(1); delete rec.Payload.After.o;
		throw new Error("no") }`, in)
	if fate.Kind != sdk.Refused {
		t.Fatalf("fate is %+v", fate)
	}
	equal(t, got, want)
}

func TestConfigureFindsMistakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "script.js")
	if err := os.WriteFile(file, []byte("function process(rec) {\n  return rec..x\n}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		settings map[string]string
		want     string
	}{
		{"syntax", map[string]string{"script": "function process(rec) {\n  let a = ;\n}"},
			`"script": script:2:11: SyntaxError: Unexpected token ;`},
		{"compiler", map[string]string{"script": "function process(rec) {\n  let a; let a;\n}"},
			`"script": script:2:14: SyntaxError: Identifier 'a' has already been declared`},
		{"file", map[string]string{"script.path": file}, file + ":2:13: SyntaxError"},
		{"no file", map[string]string{"script.path": file + "x"}, `"script.path": cannot read the script`},
		{"directory", map[string]string{"script.path": filepath.Dir(file)}, "not a regular file"},
		{"no process", map[string]string{"script": "var x = 1"}, "no function process"},
		{"top level", map[string]string{"script": "var x;\nfoo()"}, `script:2:4: ReferenceError: foo is not defined`},
		{"endless", map[string]string{"script": "for(;;);", "timeout": "50ms"}, "took longer than 50ms"},
		{"both", map[string]string{"script": "x", "script.path": file}, "only one of script and script.path"},
		{"neither", nil, "one of script and script.path must be set"},
		{"timeout", map[string]string{"script": "x", "timeout": "1h"}, `"timeout"`},
		{"source map", map[string]string{"script": "function process(rec) { return rec }\n//# " +
			"sourceMappingURL=/nonexistent/map.json"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := javascript.Plugin().New()
			err := p.Configure(t.Context(), p.Parameters().ApplyDefaults(test.settings))
			if test.want == "" && err != nil || test.want != "" &&
				(err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
		})
	}
}

func TestScriptPathAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "script.js")
	if err := os.WriteFile(file, []byte("function process(rec) { rec.Metadata.a = 'b'; return rec }"),
		0o600); err != nil {
		t.Fatal(err)
	}
	forbidden := sdk.WithEnv(t.Context(), &sdk.Env{Logger: slog.New(slog.DiscardHandler),
		AllowPath: func(string) error { return errors.New("not here") }})
	if err := javascript.Plugin().New().Configure(forbidden, map[string]string{"script.path": file}); err == nil ||
		!strings.Contains(err.Error(), "not here") {
		t.Errorf("a file that may not be named: %v", err)
	}
	_, got := feed(t, open(t, map[string]string{"script.path": file}, nil), record.Record{})
	equal(t, got, record.Record{Metadata: record.Metadata{{Key: "a", Value: "b"}}})
}

// A script that runs too long causes only its record to be refused; the next one is processed.
func TestLimits(t *testing.T) {
	for _, test := range []struct{ name, body, want string }{
		{"time", "for (;;) {}", "took longer than 20ms"},
		{"time caught", "for (;;) { try { for (;;); } catch (e) {} }", "took longer than 20ms"},
		{"memory", "let a = []; for (;;) a.push({x: a.length})", "takes too much memory"},
		{"doubled text", "let s = 'x'; for (;;) s += s", "takes too much memory"},
		{"text", "let s = 'x'.repeat(4e6), a = []; for (;;) a.push(s + a.length)", "takes too much memory"},
		{"buffers", "let a = []; for (;;) a.push(new Uint8Array(4e6))", "takes too much memory"},
		{"repeat", "'x'.repeat(1e9)", "RangeError: 1000000000 bytes are too many"},
		{"buffer", "new ArrayBuffer(1e12)", "RangeError: 1000000000000 bytes are too many"},
		{"typed array", "new Float64Array(1e9)", "is too long"},
		{"array", "new Array(4e9).fill(0)", "is too long"},
		{"like an array", "Array.from({length: 1e12})", "is too long"},
		{"length", "let a = []; a.length = 4e9; a.join('x')", "is too long"},
		{"holes", "Array.prototype.forEach.call({length: 2**53 - 1}, () => 1)", "is too long"},
	} {
		t.Run(test.name, func(t *testing.T) {
			timeout := "10s"
			if strings.Contains(test.want, "took longer") {
				timeout = "20ms"
			}
			p := open(t, map[string]string{"timeout": timeout, "memory": "8388608",
				"script": "function process(rec) { if (rec.Metadata.bad) {" + test.body + "}; return rec }"}, nil)
			records := []record.Record{{Metadata: record.Metadata{{Key: "bad", Value: "1"}}}, {}}
			b := sdk.NewProcessBatch(nil, records, nil)
			if err := p.Process(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if f := b.Fates(); f[0].Kind != sdk.Refused || !strings.Contains(f[0].Err.Error(), test.want) ||
				f[1].Kind != sdk.Kept {
				t.Errorf("fates are %+v, want a refusal with %q", f, test.want)
			}
		})
	}
}

// The bounds of the built-in functions change nothing for scripts within them.
func TestBoundsAreNotSeen(t *testing.T) {
	fate, got := process(t, `class Mine extends Array { twice() { return this.map(x => x * 2) } }
	function process(rec) {
		let m = Mine.from([1, 2]);
		rec.Payload.After = {
			twice: Array.from(m.twice()), mine: m instanceof Mine && m instanceof Array, is: Array.isArray(new Array(3)),
			bytes: new Uint8Array(2) instanceof Uint8Array, named: Array.name, of: Array.of(7).length, call: Array(1, 2).length,
			self: [].constructor === Array,
			pad: "5".padStart(3, "0"), repeat: "ab".repeat(2), max: Math.max.apply(null, [1, 3, 2]),
			spread: [...new Set([1, 1])].length, hidden: Object.keys([]).length,
			thrown: (() => {
				try { [1].map(() => { throw new TypeError("mine") }) } catch (e) { return e instanceof TypeError && e.message }
			})(),
		}
		return rec
	}`, record.Record{})
	if fate.Kind != sdk.Kept {
		t.Fatalf("fate is %+v", fate)
	}
	m, _ := got.After.Structured()
	want := map[string]any{"twice": []any{int64(2), int64(4)}, "mine": true, "is": true, "bytes": true,
		"named": "Array", "of": int64(1), "call": int64(2), "self": true,
		"pad": "005", "repeat": "abab", "max": int64(3), "spread": int64(1), "hidden": int64(0), "thrown": "mine"}
	if d := cmp.Diff(want, m); d != "" {
		t.Error(d)
	}
}

// A record that was passed on has a new owner: a script that kept its data gets an error, not a data race.
func TestKeptRecords(t *testing.T) {
	p := open(t, map[string]string{"script": `var kept, n = 0;
	function process(rec) { n++; rec.Metadata.n = n; if (kept) kept.x = 1; kept = rec.Payload.After; return rec }`}, nil)
	in := record.Record{After: record.Structured(map[string]any{"x": 0})}
	if fate, got := feed(t, p, in); fate.Kind != sdk.Kept || got.Metadata.Get("n") != "1" {
		t.Fatalf("%+v %+v", fate, got)
	}
	fate, _ := feed(t, p, in)
	if fate.Kind != sdk.Refused || !strings.Contains(fate.Err.Error(), "this record has been passed on") {
		t.Errorf("fate is %+v", fate)
	}
}

// The global variables of a script are released when they hold too much.
func TestLeaksEnd(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	p := open(t, map[string]string{"memory": "1048576", "script": `var all = [];
	function process(rec) { all.push("x".repeat(4 * 1024) + all.length); rec.Metadata.n = all.length; return rec }`},
		slog.New(slog.NewTextHandler(&lines, nil)))
	for range 40 {
		records := make([]record.Record, 512)
		b := sdk.NewProcessBatch(nil, records, nil)
		if err := p.Process(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		for _, f := range b.Fates() {
			if f.Kind != sdk.Kept {
				t.Fatalf("fate is %+v", f)
			}
		}
		if n := records[511].Metadata.Get("n"); n < "600" &&
			strings.Contains(lines.String(), "the memory grew too much") && len(n) <= 3 {
			return
		}
	}
	t.Fatalf("the script was never started again; the log is %s", lines.String())
}

func TestLogs(t *testing.T) {
	var lines bytes.Buffer
	log := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
	p := open(t, map[string]string{"script": `function process(rec) {
		logger.Info().Str("key", "value").Msg("hello");
		logger.Warn(undefined).Msgf("%d of %s", 3, "x");
		logger.Trace().Msg("unseen");
		console.log("text", 5, {a: [1]}, rec.Payload.After);
		console.error("bad");
		for (let i = 0; i < 1000; i++) console.debug("flood");
		return rec }`}, log)
	feed(t, p, record.Record{After: record.Structured(map[string]any{"x": "y"})})
	want := `level=INFO msg=hello key=value
level=WARN msg="3 of x"
level=INFO msg="text 5 {\"a\":[1]} {\"x\":\"y\"}"
level=ERROR msg=bad
`
	if !strings.HasPrefix(lines.String(), want) {
		t.Errorf("log is %.500s", lines.String())
	}
	if n := strings.Count(lines.String(), "flood"); n < 50 || n > 300 {
		t.Errorf("%d lines of the flood were logged", n)
	}
}

func BenchmarkJavaScript(b *testing.B) {
	for _, bench := range []struct{ name, script string }{
		{"identity", "function process(rec) { return rec }"},
		{"two fields", `function process(rec) { rec.Payload.After.a = "x"; rec.Payload.After.n = ` +
			`rec.Payload.After.id + 1; return rec }`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			p := open(b, map[string]string{"script": bench.script}, nil)
			records := make([]record.Record, 100)
			for i := range records {
				records[i] = record.Record{Position: position, Operation: record.OperationCreate,
					Metadata: record.Metadata{{Key: "a", Value: "b"}},
					After:    record.Structured(map[string]any{"id": i, "name": "name", "on": true, "x": 1.5})}
			}
			batch := sdk.NewProcessBatch(nil, records, nil)
			b.ReportAllocs()
			for b.Loop() {
				batch.Reset(nil, records, nil)
				if err := p.Process(b.Context(), batch); err != nil || batch.Fates() != nil {
					b.Fatal(err, batch.Fates())
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(records)), "ns/record")
		})
	}
}

// Statements in which a name may refer to a member of an object are refused, with their place and the remedy.
func TestWithIsRefused(t *testing.T) {
	t.Parallel()
	err := javascript.Compile("function process(rec) {\n  with (rec) { Key = 'x' }\n  return rec\n}")
	if err == nil || !strings.Contains(err.Error(),
		"script:2:3: SyntaxError: scripts cannot use the statement with: name the object") {
		t.Errorf("error is %v", err)
	}
}
