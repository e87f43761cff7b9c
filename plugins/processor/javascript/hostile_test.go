package javascript_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor/javascript"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// hostileVariable makes this test binary run the named script in a separate process, without tests.
const hostileVariable = "JAVASCRIPT_TEST_HOSTILE"

// hostile are scripts that allocate all available memory, in loops that can be interrupted and in single operations
// that cannot.
var hostile = map[string]string{
	"spread of holes":       "let a = []; a.length = 4e9; [...a]",
	"spread of arguments":   "let a = []; a.length = 4e9; Math.max(...a)",
	"destructured holes":    "let a = []; a.length = 4e9; let [...b] = a",
	"set of holes":          "let a = []; a.length = 4e9; new Set(a)",
	"array of holes":        "let a = []; a.length = 4e9; Array.from(a)",
	"values":                "let a = []; a.length = 4e9; [...a.values()]",
	"keys":                  "let a = []; a.length = 4e9; [...a.keys()]",
	"entries":               "let a = []; a.length = 4e9; [...a.entries()]",
	"doubled text":          "let s = 'x'; for (;;) s += s",
	"doubled wide text":     "let s = 'ü'; for (;;) s += s",
	"doubled sum":           "let s = 'x'; for (;;) s = s + s",
	"doubled template":      "let s = 'x'; for (;;) s = `${s}${s}`",
	"doubled long template": "let s = 'x'; for (;;) s = `${s}-${s}-${s}-${s}`",
	"doubled member":        "let o = {s: 'x'}; for (;;) o.s += o.s",
	"doubled by a function": "let f = (a, b) => a + b, s = 'x'; for (;;) s = f(s, s)",
	"doubled by hand":       "let s = 'x'.repeat(1 << 20);" + strings.Repeat("s += s;", 20),
	"many in a template":    "let s = 'x'.repeat(1 << 24); `" + strings.Repeat("${s}", 1000) + "`",
	"sum of many":           "let s = 'x'.repeat(15 << 20); s += s; s" + strings.Repeat("+s", 100),
	"sum beside others":     "let s = 'x'.repeat(16 << 20); s" + strings.Repeat("+s", 100),
	"kept sums":             "let a = [], s = 'x'.repeat(1 << 24), t = 'y'; for (;;) a.push(s + t)",
	"doubled list":          "let a = [1]; for (;;) a.push(...a)",
	"doubled concat":        "let a = [1]; for (;;) a = a.concat(a)",
	"buffers":               "let a = []; for (;;) a.push(new Uint8Array(16e6))",
	"join of long texts":    "let s = 'x'.repeat(16e6), a = new Array(4000).fill(s); a.join('')",
	"join by a long text":   "new Array(16e6).join('x'.repeat(16e6))",
	"text of nested lists":  "let a = ['x'.repeat(1000)]; for (let i = 0; i < 40; i++) a = [a, a]; String(a)",
	"JSON of nested lists": "let a = ['x'.repeat(1000)]; for (let i = 0; i < 40; i++) a = [a, a]; " +
		"JSON.stringify(a)",
	"JSON of nested objects": "let a = {x: 'x'.repeat(1000)}; for (let i = 0; i < 40; i++) a = {a, b: a}; " +
		"JSON.stringify(a)",
	"flat":                     "let a = [1]; for (let i = 0; i < 40; i++) a = [a, a]; a.flat(Infinity)",
	"replace":                  "'x'.repeat(4e6).replace(/x/g, 'y'.repeat(4e6))",
	"replace all":              "'x'.repeat(4e6).replaceAll('x', 'y'.repeat(4e6))",
	"replace by the match":     "'x'.repeat(4e6).replace(/x/g, \"$`\")",
	"concat of text":           "let s = 'x'.repeat(16e6); s.concat(...new Array(4000).fill(s))",
	"pad":                      "'x'.padEnd(4e9, 'y')",
	"raw":                      "String.raw({raw: new Array(4000).fill('x'.repeat(16e6))})",
	"big shift":                "1n << 100000000000n",
	"big power":                "2n ** 100000000000n",
	"power of a map of itself": "let m = new Map(); m.set(m, m); m ** 2",
	"power of an object":       "({valueOf: () => 1n << 100000n}) ** Object(100000000000n)",
	"big product":              "let a = 1n << 1000000n; for (;;) a *= a",
	"deep recursion":           "let f = a => f([a, a]); f([])",
	"record":                   "let s = 'x'.repeat(16e6); for (let i = 0;; i++) rec.Metadata['k' + i] = s + i",
	"raw data":                 "for (let a = [];;) a.push(RawData('x'.repeat(16e6)))",
	"error":                    "throw new Error('x'.repeat(16e6))",
	"thrown list":              "let a = ['x'.repeat(1000)]; for (let i = 0; i < 40; i++) a = [a, a]; throw a",
	"thrown getter":            "throw {toString() { let s = 'x'; for (;;) s += s }}",
	"code":                     "Function('[' + '1,'.repeat(4e6) + ']')",
	"eval":                     "eval('(' .repeat(4e6))",
	"reflect":                  "let a = []; a.length = 4e9; Reflect.construct(Array, a)",
	"getter of length": "Array.prototype.join.call({get length() { return this.n = (this.n || 0) + 1 > 1 ? " +
		"4e9 : 1 }}, 'x')",
	"changed length": "let n = 0; [].concat({get length() { return n++ ? 4e9 : 1 }, " +
		"[Symbol.isConcatSpreadable]: true})",
	"typed array of an array": "let a = []; a.length = 4e9; new Float64Array(a)",
	"typed array from":        "Float64Array.from({length: 4e9})",
	"lists of holes":          "let a = []; a.length = 4e9; [].concat(a, a)",
	"spread object":           "let o = {length: 4e9, [Symbol.isConcatSpreadable]: true}; [].concat(o, o)",
	"length by a species": "let a = []; class A extends Array { static get [Symbol.species]() { a.length = " +
		"4e9; return Array } }; new A().concat(a)",
	"length by an element": "let a = []; [].concat({length: 1, [Symbol.isConcatSpreadable]: true, get 0() { " +
		"a.length = 4e9 }}, a)",
	"raw of a length":         "String.raw({raw: {length: 2 ** 53}}, 'x')",
	"raw of a changed length": "let n = 0; String.raw({raw: {get length() { return n++ ? 4e9 : 1 }}})",
	"big signed number":       "BigInt.asIntN(100000000000, -1n)",
	"big unsigned number": "let n = 0; BigInt.asUintN({valueOf: () => n++ ? 2 ** 53 - 1 : 64}, -1n); " +
		"BigInt.asUintN(2 ** 53 - 1, -1n)",
	"normalized":                "'\uFDFA'.repeat(4e6).normalize('NFKD')",
	"compared":                  "'\u00e4'.repeat(8e6).localeCompare('\u00e4'.repeat(8e6))",
	"length twice of a call":    "let n = 0; Math.max.apply(null, {get length() { return n++ ? 4e9 : 1 }})",
	"length twice by Reflect":   "let n = 0; Reflect.apply(Math.max, null, {length: {valueOf: () => n++ ? 4e9 : 1}})",
	"length twice to construct": "let n = 0; Reflect.construct(Array, {get length() { return n++ ? 4e9 : 1 }})",
	"length twice of typed":     "let n = 0; new Uint8Array({get length() { return n++ ? 4e9 : 1 }})",
	"length twice from":         "let n = 0; Array.from.call(Object, {get length() { return n++ ? 4e9 : 1 }})",
	"length twice to search":    "let n = 0; [].indexOf.call({get length() { return n++ ? 2 ** 53 - 1 : 1 }}, 1)",
	"length twice to fill":      "let n = 0; [].fill.call({get length() { return n++ ? 2 ** 53 - 1 : 1 }}, 1)",
	"length twice to shift":     "let n = 0; [].shift.call({length: {valueOf: () => n++ ? 2 ** 53 - 1 : 1}})",
	"length twice to join": "let n = 0, s = 'x'.repeat(16e6), o = {get length() { return n++ ? 4000 : 1 }}; for " +
		"(let i = 0; i < 4000; i++) o[i] = s; [].join.call(o)",
	"length of a flat map": "let a = []; a.length = 4e9; [1].flatMap(() => a)",
	"length of a match": "let r = /x/; Object.defineProperty(r, 'exec', {value: () => ({length: 2 ** 32, " +
		"index: 0, 0: 'x'})}); 'x'.replace(r, 'y')",
	"length of a split": "let r = /x/; Object.defineProperty(r, 'constructor', {value: {[Symbol.species]: " +
		"function () { return {exec: () => ({length: 4e9}), lastIndex: 1} }}}); 'xx'.split(r)",
	"buffer of a text":      "new ArrayBuffer('40000000000')",
	"buffer of two":         "new ArrayBuffer(4e10, 1)",
	"buffer of an object":   "let n = 0; new ArrayBuffer({valueOf: () => n++ ? 4e10 : 1})",
	"buffer of the engine":  "new (Object.getPrototypeOf(ArrayBuffer))(4e10)",
	"pattern of the engine": "Object.getPrototypeOf(RegExp)('('.repeat(8e6))",
	"number of the engine":  "Object.getPrototypeOf(BigInt)('9'.repeat(16e6))",
	"concat of objects":     "let s = new String('x'.repeat(16e6)); ''.concat(...new Array(4000).fill(s))",
	"repeat of an object":   "let n = 0; 'x'.repeat({valueOf: () => n++ ? 1e9 : 1})",
	"pad of a text":         "'x'.padEnd('2000000000')",
	"replace of objects":    "'x'.repeat(4e6).replaceAll({toString: () => 'x'}, {toString: () => 'y'.repeat(4e6)})",
	"replace by a symbol": "RegExp.prototype[Symbol.replace].call(/x/g, {toString: () => 'x'.repeat(4e6)}, " +
		"'y'.repeat(4e6))",
	"proxy": "[].concat(new Proxy([], {get: (t, k) => k === 'length' ? 4e9 : 1, has: () => true}))",

	// Structures that refer to themselves, and built-in functions that call each other: they must not exhaust the Go
	// stack, which would end the process.
	"JSON of itself":           "let o = {}; o.self = o; JSON.stringify(o)",
	"JSON of a list of itself": "let a = []; a.push({a: [a]}); JSON.stringify(a)",
	"console of itself":        "let o = {}; o.self = o; console.log(o)",
	"log of itself":            "let o = {}; o.self = o; logger.Info().Msgf('%v %+v', o, o)",
	"text of itself":           "let a = []; a.push(a); String(a)",
	"template of itself":       "let a = [1]; a.push([a]); `${a}`",
	"join of itself":           "let a = []; a[0] = {toString: () => a.join()}; a.join()",
	"locale text of itself":    "let a = []; a.push(a); a.toLocaleString()",
	"flat of itself":           "let a = []; a.push(a); a.flat(Infinity)",
	"flat of getters": "let make = () => { let a = [0]; Object.defineProperty(a, 0, {get: make}); return " +
		"a }; make().flat(Infinity)",
	"JSON of getters": "let make = () => ({get a() { return make() }}); JSON.stringify(make())",
	"JSON of a late cycle": "let n = 0, o = {get a() { return n++ > 2 ? make() : 1 }}, make = () => ({get a() " +
		"{ return make() }}); JSON.stringify([o, o, o, o, o, o])",
	"JSON of toJSON":        "let o = {toJSON: () => ({a: o})}; JSON.stringify(o)",
	"JSON by native toJSON": "let o = {}; o.toJSON = JSON.stringify.bind(null, o); JSON.stringify(o)",
	"JSON by a replacer":    "JSON.stringify({}, (k, v) => ({k: {}}))",
	"JSON of a proxy": "let h = {get: () => p, ownKeys: () => ['a'], getOwnPropertyDescriptor: () => " +
		"({value: 1, enumerable: true, configurable: true})}, p = new Proxy({}, h); JSON.stringify([p])",
	"reviver that adds":  "JSON.parse('[0,0]', function (k, v) { if (k === '0') this[1] = this; return v })",
	"reviver that nests": "JSON.parse('[0,0]', function (k, v) { if (k === '0') this[1] = [0, 0]; return v })",
	"message of itself":  "let e = new Error('x'); e.message = e; throw e",
	"name of itself":     "let e = new Error('x'); e.name = e; String(e)",
	"cause of itself":    "let e = new Error('x'); e.cause = e; throw e",
	"native toString":    "let o = {}; o.toString = String.prototype.trim; String(o)",
	"native valueOf":     "let o = {}; o.valueOf = Math.abs.bind(null, o); +o",
	"native primitive": "let o = {}; o[Symbol.toPrimitive] = Date.prototype[Symbol.toPrimitive].bind(o, " +
		"'string'); `${o}`",
	"native locale":          "let o = {}; o.toString = Object.prototype.toLocaleString; String(o)",
	"bound conversion":       "let o = {}; o.toString = String.bind(null, o); String(o)",
	"bound data":             "let o = {}; o.toString = RawData.bind(o, o); String(o)",
	"bound require":          "let o = {}; o.toString = require.bind(o, o); String(o)",
	"bound log":              "let o = {}; o.toString = console.log.bind(o, o); String(o)",
	"bound field of the log": "let o = {}, l = logger.Info(); o.toString = l.Str.bind(l, o, o); String(o)",
	"bound error":            "let o = {}; o.toString = Error.bind(null, o); String(o)",
	"getter that binds": "let e = new Error(''); Object.defineProperty(e, 'name', {get: " +
		"Function.prototype.bind, enumerable: true}); e.name",
	"compile within compile": "let o = {get [Symbol.toStringTag]() { return new RegExp('x') + '' }}; " +
		"RegExp.prototype.compile.call(o, 'x')",
	"compile of itself": "let o = {}; Object.defineProperty(o, Symbol.toStringTag, {get: " +
		"RegExp.prototype.compile}); o[Symbol.toStringTag]",
	"getter that searches": "let r = /x/; Object.defineProperty(r, 'exec', {get: r[Symbol.search]}); r.exec",
	"exec without end":     "let r = /x/g; Object.defineProperty(r, 'exec', {value: Object}); 'x'.match(r)",
	"exec that is a prototype": "let r = /x/g; Object.defineProperty(r, 'exec', {value: Object.getPrototypeOf}); " +
		"'x'.replace(r, 'y')",
	"next without end": "Array.from({[Symbol.iterator]: () => ({next: Object})})",
	"species without end": "let r = /x/g; Object.defineProperty(r, 'exec', " +
		"Object.getOwnPropertyDescriptor(Map, Symbol.species)); 'x'.match(r)",
	"native exec":           "let rx = /x/; rx.lastIndex = rx; rx.valueOf = RegExp.prototype.exec; rx.exec('x')",
	"native exec of a test": "let rx = /x/; rx.lastIndex = rx; rx.toString = rx.valueOf = rx.exec; rx.test('x')",
	"native exec of a replace": "let rx = /x/y; rx.lastIndex = rx; rx[Symbol.toPrimitive] = rx.exec; " +
		"'x'.replace(rx, 'y')",
	"native exec of another": "let a = /x/, b = /x/; a.lastIndex = b; b.lastIndex = a; a.valueOf = b.valueOf = " +
		"a.exec; +a",
	"bound match": "let o = {}, r = /x/; o.toString = r.exec.bind(r, o); r.test(o)",
	"native getter": "let o = {}; Object.defineProperty(o, 'x', {get: Reflect.get.bind(null, o, " +
		"'x')}); o.x",
	"getter of flags": "let o = {}, d = Object.getOwnPropertyDescriptor(RegExp.prototype, 'flags'); " +
		"Object.defineProperty(o, 'global', d); o.global",
	"getter of a tag": "let o = {}; Object.defineProperty(o, Symbol.toStringTag, {get: " +
		"Object.prototype.toString}); String(o)",
	"map of itself":  "let m = new Map(); m.set(m, m.forEach); m.forEach(m.forEach, m)",
	"then of itself": "let o = {then: Promise.prototype.catch}; o.then()",
	"apply of itself": "let args = [], f = Reflect.apply.bind(null, Reflect.apply, null, args); " +
		"args.push(f, null, args); f()",
	"proxy of its prototype": "let t = {}, p = new Proxy(t, {}); Object.setPrototypeOf(t, p); t.x",
	"proxy of its handler":   "let h = {}, p = new Proxy({}, h); Object.setPrototypeOf(h, p); p.x",
	"proxy by Reflect":       "let t = {}, p = new Proxy(t, Reflect); Object.setPrototypeOf(t, p); 'x' in t",
	"revocable proxy": "let t = {}, {proxy} = Proxy.revocable(t, {}); Object.setPrototypeOf(t, proxy); " +
		"t.x = 1",
	"instance of a proxy":         "let t = {}, p = new Proxy(t, {}); Object.setPrototypeOf(t, p); t instanceof Map",
	"keys of a proxy":             "let t = {}, p = new Proxy(t, {}); Object.setPrototypeOf(t, p); for (let k in t);",
	"many proxies":                "let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); p.x",
	"many prototypes":             "let o = {}; for (;;) o = Object.create(o)",
	"property of many prototypes": "let o = {}; for (let i = 0; i < 2e5; i++) o = {__proto__: o}; o.x",
	"many bound":                  "let f = () => 1; for (let i = 0; i < 1e5; i++) f = f.bind(null); f()",
	"generators":                  "function* g() { yield* g() }; [...g()]",
	"constructors":                "class A { constructor() { new A() } }; new A()",
	"nested groups":               "new RegExp('('.repeat(8e6))",
	"nested groups with classes":  "new RegExp('(?=x)' + '([)]'.repeat(1e5) + ')'.repeat(1e5))",
	"nested groups to match":      "'x'.match('(?:'.repeat(4e6))",
	"nested lookaheads":           "'x'.search('(?='.repeat(4e6) + ')'.repeat(4e6))",
	"deep list":                   "let a = []; for (let i = 0; i < 1e6; i++) a = [a]; String(a)",
	"deep object":                 "let o = {}; for (let i = 0; i < 1e6; i++) o = {o}; JSON.stringify(o)",
	"deep JSON":                   "JSON.parse('['.repeat(4e6))",

	// Operations on the result of the script.
	"returned itself":        "let o = {}; o.self = o; rec.Payload.After = o; return rec",
	"returned map of itself": "let m = new Map(); m.set('m', m); rec.Payload.After = {m}; return rec",
	"returned deep": "let o = {}; for (let i = 0; i < 1e6; i++) o = {o}; rec.Payload.After = o; " +
		"return rec",
	"returned getter that loops":    "rec.Payload.After = {get a() { for (;;); }}; return rec",
	"returned getter that throws":   "rec.Payload.After = {get a() { throw rec }}; return rec",
	"returned getter that recurses": "rec.Payload.After = {get a() { return this.a }}; return rec",
	"returned proxy that loops":     "rec.Payload.After = new Proxy({a: 1}, {ownKeys() { for (;;); }}); return rec",
	"returned length that loops":    "return new Proxy([rec], {get() { for (;;); }})",
	"returned value of itself many": "let a = ['x']; for (let i = 0; i < 40; i++) a = [a, a]; rec.Payload.After = " +
		"{a}; return rec",
	"returned one list many times": "let a = new Array(1e6).fill('x'); rec.Payload.After = {l: new " +
		"Array(1e5).fill(a)}; return rec",
	"returned one piece many times": "rec.Payload.After = RawData('x'.repeat(16e6)); return new Array(1e5).fill(rec)",
	"returned length of holes":      "let a = []; a.length = 4e9; rec.Payload.After = {a}; return rec",
	"rejected by itself":            "return Promise.reject({toString() { for (;;); }})",
	"promises without end":          "let f = () => Promise.resolve().then(f); return f()",
	"thrown proxy":                  "throw new Proxy({}, {get() { for (;;); }})",
	"operation that loops":          "rec.Operation = {toString() { for (;;); }}",
	"byte that loops":               "RawData('x')[0] = {valueOf() { for (;;); }}",

	// Single operations that take much time or memory.
	"values of JSON":        "JSON.parse('[' + '{},'.repeat(5e6) + '1]')",
	"numbers of JSON":       "JSON.parse('[' + '1,'.repeat(8e6) + '1]')",
	"parts":                 "'x'.repeat(16e6).split('')",
	"parts by a pattern":    "'x'.repeat(16e6).split(/x/)",
	"matches":               "'x'.repeat(16e6).match(/x/g)",
	"replaced matches":      "'x'.repeat(16e6).replace(/x/g, () => 'yy')",
	"all matches":           "[...'x'.repeat(16e6).matchAll(/x/g)]",
	"sorted holes":          "let a = new Array(16e6).fill(1); a.sort()",
	"sorted by nothing":     "let a = Array.from({length: 1e6}, (_, i) => 'x' + i); a.sort(() => 1)",
	"loops of the language": "let a = new Array(1e6).fill(1); a.forEach(a.indexOf.bind(a, 2))",
	"number of digits":      "BigInt('9'.repeat(16e6))",
	"format of a width":     "logger.Info().Msgf('%1000000000d %*d', 1, 1000000000, 2)",
	"fields of the log":     "let l = logger.Info(); for (;;) l.Str('x'.repeat(1e6), 'y')",
	"backtracking":          "/^(?=(a+)+$)b|^(a+)+\\1$/.test('a'.repeat(40) + 'b')",
	"entries of many":       "Object.entries(Object.fromEntries(Array.from({length: 16e6}, (_, i) => [i, i])))",
	"assigned":              "let o = {}; for (let i = 0; ; i++) Object.assign(o, {['x' + i]: 'y'.repeat(1e4)})",
}

// maxHostile bounds the memory of a process that runs a hostile script: the memory limit of the script, operations that
// cannot be interrupted, and garbage.
const maxHostile = (3 << 29) * detectorFactor

// maxDoubled bounds the memory of a process whose script doubles a value: four times the memory limit, plus the rest of
// the process.
const maxDoubled = 4*64<<20 + 128<<20

// maxHostileTime bounds the running time of such a process. Its script is interrupted after 0.5 s, but the machine may
// be busy.
const maxHostileTime = 2 * time.Minute

// addressSpace, in KiB, protects the machine when a script is not bounded.
const addressSpace = 8_000_000

var processes = flag.Int("hostile", 1, "hostile scripts that run, each in a process of its own; 0 is all")

func TestHostileScripts(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Sorted(maps.Keys(hostile))
	names := all
	if n := *processes; n > 0 {
		names = nil
		for i := range n {
			names = append(names, all[i*len(all)/n])
		}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := maxHostile
			if strings.HasPrefix(name, "doubled ") && name != "doubled concat" && detectorFactor == 1 {
				limit = maxDoubled
			}
			n, out := peakOf(t, exe, name)
			for range 4 { // the goroutine that samples the memory may run late on a busy machine
				if n > limit {
					n, out = peakOf(t, exe, name)
				}
			}
			if n > limit {
				t.Errorf("the process needed %d MiB, five times: %.300s", n>>20, out)
			}
			t.Logf("%.200s", out)
		})
	}
}

// peakOf runs a hostile script in a separate process, and returns the peak memory of the process.
func peakOf(t *testing.T, exe, name string) (peak int, out []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), maxHostileTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", fmt.Sprintf("ulimit -v %d; exec %s", addressSpace, exe))
	cmd.Env = append(os.Environ(), hostileVariable+"="+name)
	out, err := cmd.CombinedOutput()
	if err != nil && bytes.Contains(out, []byte("failed to allocate")) {
		return math.MaxInt, out // in the race detector, which takes several times the memory of the script
	}
	if err != nil {
		t.Fatalf("the process ended: %v: %.300s", err, out)
	}
	found := regexp.MustCompile(`peak (\d+)`).FindSubmatch(out)
	if found == nil {
		t.Fatalf("no result: %.300s", out)
	}
	peak, err = strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return peak, out
}

// runHostile runs a hostile script between two harmless records. It reports whether the harmless records were kept.
func runHostile(name string) (kept bool) {
	p, ctx := javascript.Plugin().New(), context.Background()
	settings := p.Parameters().ApplyDefaults(map[string]string{"timeout": "500ms", "memory": "67108864",
		"script": "function process(rec) { if (rec.Metadata.bad) {" + hostile[name] + "}; return rec }"})
	if err := p.Configure(ctx, settings); err != nil {
		fmt.Println(err)
		return false
	}
	if err := p.Open(ctx); err != nil {
		fmt.Println(err)
		return false
	}
	defer func() { _ = p.Teardown(ctx) }()
	records := []record.Record{{}, {Metadata: record.Metadata{{Key: "bad", Value: "1"}}}, {}}
	b := sdk.NewProcessBatch(nil, records, nil)
	err := p.Process(ctx, b)
	status, _ := os.ReadFile("/proc/self/status")
	peak := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	kib, _ := strconv.Atoi(string(peak[1]))
	fates := b.Fates()
	fmt.Printf("peak %d MiB %d, %v", kib<<10, kib>>10, err)
	kept = len(fates) == 0 // no fates: all records were kept
	if len(fates) == 3 {
		fmt.Printf(", %v", strings.ReplaceAll(fmt.Sprint(fates[1].Err), "\n", " "))
		if kept = fates[0].Kind == sdk.Kept && fates[2].Kind == sdk.Kept; !kept {
			fmt.Printf(", harmless records: %+v", fates)
		}
	}
	fmt.Println()
	return kept
}
