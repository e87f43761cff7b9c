package javascript_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor/javascript"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// refusals are hostile scripts by the errors of their records.
var refusals = map[string][]string{
	"TypeError: Converting circular structure to JSON": {
		"JSON of itself", "JSON of a list of itself", "console of itself", "log of itself", "JSON of a proxy",
	},
	"RangeError: ": {
		"flat of itself", "flat of getters", "JSON of getters", "JSON of a late cycle", "JSON of toJSON",
		"JSON by native toJSON", "JSON by a replacer", "reviver that adds", "reviver that nests", "name of itself",
		"native toString", "native valueOf", "native locale", "bound conversion", "bound error", "bound data",
		"bound require", "getter that binds", "compile of itself", "getter that searches", "native exec",
		"native exec of a test", "native exec of a replace", "native exec of another", "bound match",
		"native getter", "getter of flags", "getter of a tag", "map of itself", "then of itself",
		"apply of itself", "generators", "nested groups to match", "nested groups with classes", "deep JSON",
		"values of JSON", "big signed number", "normalized", "buffer of a text", "buffer of two", "pad of a text",
		"replace by a symbol", "big power", "big shift", "join of long texts", "join by a long text", "reflect",
		"typed array from", "sorted holes",
	},
	"RangeError: a BigInt is too large":                    {"power of an object"},
	"TypeError: this function needs a regular expression":  {"exec that is a prototype", "length of a match"},
	"TypeError: the length of the list is no plain number": {"length twice to fill", "length twice to shift"},
	"TypeError: an object that exists cannot get a Proxy": {
		"proxy of its prototype", "proxy of its handler", "proxy by Reflect", "revocable proxy",
		"instance of a proxy",
	},
	"TypeError: scripts cannot make code of text": {"code", "eval"},
	"TypeError: ": {"buffer of the engine", "compile within compile", "species without end"},
	"":            {"returned itself", "returned length of holes", "returned getter that throws"},
	"the script took longer than 50ms": {
		"returned getter that loops", "returned proxy that loops", "operation that loops", "rejected by itself",
		"next without end", "lists of holes", "spread object", "length by an element", "raw of a length",
		"length of a flat map", "spread of holes", "flat", "text of nested lists", "JSON of nested objects",
	},
}

// harmless are hostile scripts whose lengths change after they were checked, and others that do no harm.
var harmless = []string{"length twice of a call", "length twice by Reflect", "length twice to construct",
	"length twice of typed", "length twice from", "length twice to search", "buffer of an object",
	"repeat of an object",
	"raw of a changed length", "length by a species", "length of a split", "changed length", "getter of length",
	"text of itself", "template of itself", "join of itself", "locale text of itself"}

// virtual is a clock that stands still, except while a script runs that never ends. It is the log handler of the
// scripts, which log their names.
type virtual struct {
	slog.Handler
	endless atomic.Bool
	steps   atomic.Int64
}

func (v *virtual) now() time.Time {
	if v.endless.Load() {
		v.steps.Add(1)
	}
	return time.Unix(1+v.steps.Load(), 0)
}

func (v *virtual) Handle(_ context.Context, r slog.Record) error {
	v.endless.Store(r.Message != "undefined")
	return nil
}

func (v *virtual) Enabled(context.Context, slog.Level) bool { return true }

func (v *virtual) WithAttrs([]slog.Attr) slog.Handler { return v }

// A structure that refers to itself, built-in functions that call each other without end, and getters that loop cause
// only their own record to be refused. The next record is processed.
func TestEndlessStructures(t *testing.T) {
	scripts := "const scripts = {"
	for name, script := range hostile {
		scripts += fmt.Sprintf("%q: rec => { %s; return rec },\n", name, script)
	}
	scripts += "}; function process(rec) { const f = scripts[rec.Metadata.name]; return f ? f(rec) : rec }"
	slow := open(t, map[string]string{"timeout": "10s", "memory": "67108864", "script": scripts}, nil)
	clock := &virtual{Handler: slog.DiscardHandler}
	t.Cleanup(javascript.SetGuardClock(clock.now, time.Millisecond))
	fast := open(t, map[string]string{"timeout": "50ms", "script": strings.Replace(scripts, "process(rec) {",
		"process(rec) { logger.Info().Msg(String(rec.Metadata.name));", 1)}, slog.New(clock))
	process := func(p sdk.Processor, name string, records ...record.Record) []sdk.Fate {
		b := sdk.NewProcessBatch(nil, records, nil)
		if err := p.Process(t.Context(), b); err != nil {
			t.Fatalf("%s: the processor failed: %v", name, err)
		}
		return b.Fates()
	}
	run := func(p sdk.Processor, name string) []sdk.Fate {
		one := record.Record{Metadata: record.Metadata{{Key: "name", Value: name}}}
		if p == slow {
			return process(p, name, one, record.Record{})
		}
		// The clock must stand still before the time of the next record begins.
		fates := process(p, name, one)
		clock.endless.Store(false)
		if next := process(p, name, record.Record{}); len(next) > 0 {
			return append(fates, next...)
		}
		return append(fates, sdk.Fate{})
	}
	for want, names := range refusals {
		p := slow
		if strings.Contains(want, "50ms") {
			p = fast
		}
		for _, name := range names {
			if f := run(p, name); len(f) != 2 || f[0].Kind != sdk.Refused ||
				!strings.Contains(f[0].Err.Error(), want) ||
				f[1].Kind != sdk.Kept {
				t.Errorf("%s: fates are %+v, want a refusal with %q", name, f, want)
			}
		}
	}
	for _, name := range harmless {
		if f := run(slow, name); len(f) > 0 {
			t.Errorf("%s: fates are %+v, want the record", name, f)
		}
	}
}

// The bounds of the built-in functions do not change their results for usual values.
func TestBoundedFunctions(t *testing.T) {
	scripts := make(map[string]string)
	for script, want := range map[string]string{
		`return JSON.stringify({a: [1, "x", null, undefined, () => 1], b: undefined, ` +
			`d: new Date(0)})`: `{"a":[1,"x",null,null,null],"d":"1970-01-01T00:00:00.000Z"}`,
		`return JSON.stringify({b: 1, a: {b: 2, c: 3}}, ["c", "a"])`: `{"a":{"c":3}}`,
		`return JSON.stringify({a: 1, b: "x"}, (k, v) => typeof v === "number" ? v + ` +
			`1 : v, 2)`: "{\n  \"a\": 2,\n  \"b\": \"x\"\n}",
		`return JSON.stringify([new Number(1), new String("s"), Object("t"), [[]], {}])`: `[1,"s","t",[[]],{}]`,
		`let o = {x: 1}; return JSON.stringify([o, o, {o}])`:                             `[{"x":1},{"x":1},{"o":{"x":1}}]`,
		`return String(JSON.stringify(undefined))`:                                       `undefined`,
		`return JSON.stringify(JSON.parse('{"a":[1,{"b":2}],"c":3}', (k, ` +
			`v) => k === "c" ? undefined : typeof v === "number" ? v * 2 : v))`: `{"a":[2,{"b":4}]}`,
		`return String([1, [2, [3, null]], "x"]) + [1, 2].join("-") + [[1], [2]].flat().length`: `1,2,3,,x1-22`,
		`let o = [1]; return String([o, o])`:                                                    `1,1`,
		`let p = new Proxy({a: 1}, {get: (t, k) => k in t ? t[k] : "none"}); ` +
			`return p.a + p.b + ("a" in p) + Object.keys(p)`: `1nonetruea`,
		`let p = new Proxy(() => 1, {}); return p() + new (new Proxy(Date, {}))(5).getTime()`: `6`,
		`return "aXbXc".split("X") + "aXb".match("X").index + "a1b22".match(/\d+/g) + "aXb".search("X") + ` +
			`[..."a1b2".matchAll("\\d")].length`: `a,b,c11,2212`,
		`let r = new RegExp(/a/gi); return r.source + r.flags + RegExp("b", "m").flags + new RegExp("").source + ` +
			`(r instanceof RegExp)`: `agim(?:)true`,
		`class R extends RegExp { two() { return this.flags + 2 } }; ` +
			`return new R("x", "g").two() + "axa".replace(new R("x"), "y")`: `g2aya`,
		`let f = Math.max.bind(null, 3); return f(1) + "x".repeat.call("y", 2) + [3, 1, 2].sort() + ` +
			`Number.bind(null, "4")()`: `3yy1,2,34`,
		`let a = Array.from({length: 2000}, (_, i) => i); a.sort(); return a[1] + "," + a[2]`: `1,10`,
		`return BigInt("12") + "" + BigInt.asUintN(2, 7n) + typeof 1n + [1].map.name + ` +
			`String.prototype.trim.length`: `123bigintmap0`,
		"let s = 'a', n = 1, o = {s}; s += s; o.s += s; n += n; " +
			"return `${s}-${n}-${o.s}${{toString: () => 'u'}}` + s + n + o.s + [n] + null": `aa-2-aaauaa2aaa2null`,
		`let t = [], f = v => { t.push(v); return {toString() { t.push(-v); return "x" }} }; void (f(1) + f(2)); ` +
			`return t + ` + "`${f(3)}${f(4)}` + t": `1,2,-1,-2,3,-3,4,-4xx1,2,-1,-2,3,-3,4,-4`,
		`let b = 2n; b += b; return typeof (b + b) + (b + b) + ("ü" + b) + String.raw` +
			"`${b}\\n${b}`": `bigint8ü44\n4`,
		`let r = /a/; r.lastIndex = 5; r.compile("b+", "i"); ` +
			`return r.flags + r.source + r.lastIndex + r.test("xBB") + r.compile(/c/g).flags`: `ib+0trueg`,
		`let m = new Map(); m.set(m, m); return [m ** 2, new Date(3) ** 2, ({valueOf: () => 3n}) ** Object(2n), [2] << 1, ` +
			`1 << {}]`: `NaN,9,9,4,1`,
		`let s = 'x'.repeat(5e3); return s.replace(/(x)/g, '$1').length + s.replace(/x/g, 'yy').length + ` +
			`s.replace('x', s).length`: `24999`,
		`try { 'x'.repeat(3e6).replace(/x/g, 'y'.repeat(100)) } catch (e) { return e instanceof RangeError }`: `true`,
		`return [1, , 3].concat(4, [5, [6]], [, 7]).length + JSON.stringify(Array.prototype.concat.call(1, {length: 1, ` +
			`0: 2, [Symbol.isConcatSpreadable]: true}).slice(1)) + (1 in [, 1].concat()) + ` +
			`(0 in [, 1].concat())`: `8[2]truefalse`,
		`return Math.max.apply(null, {length: 2, 0: 3, 1: 5}) + Math.max.call(null, 1, 2) + ` +
			`Reflect.construct(Date, [5]).getTime() + Math.max.apply(null) + (() => 1).apply()`: `-Infinity`,
		`return [].map.call("ab", x => x + x) + [].slice.call({length: 2, 0: 1, 1: 2}) + ` +
			`[].includes.call(new Uint8Array(2), 0) + new Uint8Array(new ArrayBuffer("8"), 4).length + ` +
			`new Uint8Array("3").length + new Uint8Array([1, 2]) + new Uint8Array(new Set([3]))`: `aa,bb1,2true431,23`,
		`let o = {length: 2, 0: 2, 1: 1}; [].reverse.call(o); [].fill.call(o, 7, 1); ` +
			`return JSON.stringify(o) + [3, 1, 2].sort().reverse() + [1, 2, 3].splice(1, 1) + ` +
			`(function () { return [].shift.call(arguments) })(8)`: `{"0":1,"1":7,"length":2}3,2,128`,
		`return "ab".repeat("2") + "x".padStart(3) + "x".padEnd("3", 1) + "a".concat(1, null, [2]) + ` +
			`"aXbX".replace("X", {toString: () => "$&y"}) + "aXbX".replaceAll("X", () => 1) + ` +
			`"x".replace()`: `abab  xx11a1null2aXybXa1b1x`,
		`return [1, 2].flatMap(x => [x, [x]]).length + String.raw({raw: ["a", "b"]}, 1, 2) + ` +
			`"\u0041\u030a".normalize().length + "a".localeCompare("b") + [[1, [2]]].flat(2)`: `4a1b1-11,2`,
		`return [ArrayBuffer.isView(new Uint8Array(1)), Array.of(1, 2), Uint8Array.from([1, 2]), Array.isArray([]), ` +
			`BigInt.asIntN(8, 255n), RegExp.name, class extends Array {}.from([1]) + ""]`: `true,1,2,1,2,true,-1,RegExp,1`,
		`function* g() { yield 1; yield* [2, 3] }; return [...g()].join()`: `1,2,3`,
	} {
		scripts["(() => { "+script+" })()"] = want
	}
	evaluate(t, "a = 1", scripts, func() record.Record { return record.Record{} })
}
