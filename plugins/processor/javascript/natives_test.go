//go:build !race

package javascript_test

import (
	"flag"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/conduit-agent/conduit/plugins/processor/javascript"
	"github.com/conduit-agent/conduit/plugins/record"
)

// reachable collects in natives the names and functions of all built-in functions that a script can reach.
const reachable = `
	const seen = new Set(), values = [[globalThis, "global"]]
	for (const [v, name] of [[(function* () {})(), "generator"], [[].values(), "array"], [new Map().values(), "map"],
		[new Set().values(), "set"], ["x"[Symbol.iterator](), "text"], ["x".matchAll(/x/g), "matches"],
		[(async () => {}), "async"], [/x/, "regexp"], [rec, "record"],
		[(function () { return arguments })(), "arguments"], [Uint8Array.__proto__, "typed"]]) values.push([v, name])
	while (values.length) {
		const [v, name] = values.pop()
		if (v === null || typeof v !== "object" && typeof v !== "function" || seen.has(v)) continue
		seen.add(v)
		if (typeof v === "function" && Function.prototype.toString.call(v).includes("[native code]")) natives.push([name, v])
		values.push([Object.getPrototypeOf(v), name + ".__proto__"])
		for (const key of Reflect.ownKeys(v)) {
			const d = Object.getOwnPropertyDescriptor(v, key)
			if (d) for (const part of ["value", "get", "set"]) 
				values.push([d[part], name + "." + String(key) + (part === "value" ? "" : " " + part)])
		}
	}`

var natives = flag.Int("natives", 1, "functions of the language that are tried; 0 is all")

// TestNativesThatCallThemselves checks that no built-in function that converts an object recurses without bound,
// whether directly or through another built-in function. Otherwise the stack of this test would outgrow its limit, and
// the process would end. The test runs without the race detector, which enlarges stack frames.
func TestNativesThatCallThemselves(t *testing.T) {
	defer javascript.SetMaxNativeDepth(50)()
	defer debug.SetMaxStack(debug.SetMaxStack(16 << 20))
	script := "const natives = []; let rec = new Record();" + reachable + `
function process(rec) {
	const exec = RegExp.prototype.exec
	const hosts = {
		object: () => ({}), list: () => { const a = []; a.push(a); return a }, function: () => function () {},
		regexp: () => { const r = /y/; r.lastIndex = r; return r },
		date: () => new Date(0), error: () => { const e = new Error(""); e.name = e; e.message = e; return e },
		promise: () => Promise.resolve(),
		map: () => { const m = new Map(); m.set(m, m); return m }, set: () => { const s = new Set(); s.add(s); return s },
		typed: () => new Uint8Array(2), buffer: () => new ArrayBuffer(2), view: () => new DataView(new ArrayBuffer(2)),
		text: () => new String("x"), number: () => new Number(1), flag: () => new Boolean(true), big: () => Object(1n),
		symbol: () => Object(Symbol.iterator),
		iterator: () => [1][Symbol.iterator](), matches: () => "x".matchAll(/x/g), generator: () => (function* () {})(),
		proxy: () => new Proxy({}, {}), raw: () => RawData("x"),
	}
	const attempt = f => { try { f() } catch {} }
	if (!(rec.Metadata.i in natives)) { rec.Key = "end"; return rec }
	{
		const f = natives[rec.Metadata.i][1]
		for (const host in hosts) {
			const o = hosts[host]()
			for (const g of [f, ...["bind"].flatMap(() => { try { const b = Function.prototype.bind; return [b.call(f, o, o)] }
				catch { return [] } })]) {
				for (const name of ["toString", "valueOf", Symbol.toPrimitive]) {
					try { Object.defineProperty(o, name, {value: g, configurable: true}) } catch { continue }
					attempt(() => String(o)); attempt(() => +o); attempt(() => o + "")
					attempt(() => g.call(o)); attempt(() => g.call(o, o)); attempt(() => g.call(o, o, o)); 
					attempt(() => exec.call(o, o)); attempt(() => exec.call(/x/, o))
					attempt(() => JSON.stringify({o})); attempt(() => Math.max(o)); attempt(() => [o].join());
					attempt(() => new Date(o)); attempt(() => "x".replace("x", o))
					try { delete o[name] } catch {}
				}
				if (g === f) for (const name of ["x", "length", "constructor", "exec", "flags", "global", "then", "next", "done",
				"value", "toJSON", "lastIndex", "name", "message", "get", "has",
					Symbol.iterator, Symbol.toStringTag, Symbol.species, Symbol.match, Symbol.replace, Symbol.split, Symbol.search,
						Symbol.matchAll, Symbol.hasInstance, Symbol.isConcatSpreadable]) {
					try { Object.defineProperty(o, name, {get: g, set: g, configurable: true}) } catch { continue }
					attempt(() => o[name]); attempt(() => { o[name] = o }); attempt(() => g.call(o, o)); attempt(() => String(o))
					try { delete o[name] } catch {}
					try { Object.defineProperty(o, name, {value: g, configurable: true}) } catch { continue }
					attempt(() => g.call(o, o)); attempt(() => g.call(o)); attempt(() => "x".match(o)); attempt(() => [].concat(o));
					attempt(() => 1 instanceof o); attempt(() => String(o))
					try { delete o[name] } catch {}
				}
			}
		}
	}
	rec.Key = natives[rec.Metadata.i][0]
	return rec }`
	p := open(t, map[string]string{"script": script, "timeout": "3s"}, nil)
	for n := 0; *natives == 0 || n < *natives; n++ {
		i := n
		if *natives > 0 {
			i = n * 397 / *natives // a sample of all kinds
		}
		f, r := feed(t, p, record.Record{Metadata: record.Metadata{{Key: "i", Value: strconv.Itoa(i)}}})
		if name, _ := r.Key.Raw(); string(name) == "end" {
			if i < 400 {
				t.Errorf("there are %d functions only", i)
			}
			return
		}
		if f.Err != nil {
			t.Logf("native %d: %v", i, f.Err) // a refusal is fine
		}
	}
}
