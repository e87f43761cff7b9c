//go:build !minimal

package javascript_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/effort"
	"github.com/conduit-agent/conduit/plugins/processor/javascript"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// hostileVariable has this test binary run the script that it names, in a process of its own, and
// no tests.
const hostileVariable = "JAVASCRIPT_TEST_HOSTILE"

// hostile are scripts that ask for all the memory there is, by loops that can be interrupted
// and by single operations that cannot.
var hostile = map[string]string{
	"spread of holes":         "let a = []; a.length = 4e9; [...a]",
	"spread of arguments":     "let a = []; a.length = 4e9; Math.max(...a)",
	"destructured holes":      "let a = []; a.length = 4e9; let [...b] = a",
	"set of holes":            "let a = []; a.length = 4e9; new Set(a)",
	"array of holes":          "let a = []; a.length = 4e9; Array.from(a)",
	"values":                  "let a = []; a.length = 4e9; [...a.values()]",
	"keys":                    "let a = []; a.length = 4e9; [...a.keys()]",
	"entries":                 "let a = []; a.length = 4e9; [...a.entries()]",
	"doubled text":            "let s = 'x'; for (;;) s += s",
	"doubled wide text":       "let s = 'ü'; for (;;) s += s",
	"doubled list":            "let a = [1]; for (;;) a.push(...a)",
	"doubled concat":          "let a = [1]; for (;;) a = a.concat(a)",
	"buffers":                 "let a = []; for (;;) a.push(new Uint8Array(16e6))",
	"join of long texts":      "let s = 'x'.repeat(16e6), a = new Array(4000).fill(s); a.join('')",
	"join by a long text":     "new Array(16e6).join('x'.repeat(16e6))",
	"text of nested lists":    "let a = ['x'.repeat(1000)]; for (let i = 0; i < 40; i++) a = [a, a]; String(a)",
	"JSON of nested lists":    "let a = ['x'.repeat(1000)]; for (let i = 0; i < 40; i++) a = [a, a]; JSON.stringify(a)",
	"JSON of nested objects":  "let a = {x: 'x'.repeat(1000)}; for (let i = 0; i < 40; i++) a = {a, b: a}; JSON.stringify(a)",
	"flat":                    "let a = [1]; for (let i = 0; i < 40; i++) a = [a, a]; a.flat(Infinity)",
	"replace":                 "'x'.repeat(4e6).replace(/x/g, 'y'.repeat(4e6))",
	"replace all":             "'x'.repeat(4e6).replaceAll('x', 'y'.repeat(4e6))",
	"replace by the match":    "'x'.repeat(4e6).replace(/x/g, \"$`\")",
	"concat of text":          "let s = 'x'.repeat(16e6); s.concat(...new Array(4000).fill(s))",
	"pad":                     "'x'.padEnd(4e9, 'y')",
	"raw":                     "String.raw({raw: new Array(4000).fill('x'.repeat(16e6))})",
	"big shift":               "1n << 100000000000n",
	"big power":               "2n ** 100000000000n",
	"big product":             "let a = 1n << 1000000n; for (;;) a *= a",
	"deep recursion":          "let f = a => f([a, a]); f([])",
	"record":                  "let s = 'x'.repeat(16e6); for (let i = 0;; i++) rec.Metadata['k' + i] = s + i",
	"raw data":                "for (let a = [];;) a.push(RawData('x'.repeat(16e6)))",
	"error":                   "throw new Error('x'.repeat(16e6))",
	"thrown list":             "let a = ['x'.repeat(1000)]; for (let i = 0; i < 40; i++) a = [a, a]; throw a",
	"thrown getter":           "throw {toString() { let s = 'x'; for (;;) s += s }}",
	"code":                    "Function('[' + '1,'.repeat(4e6) + ']')",
	"eval":                    "eval('(' .repeat(4e6))",
	"reflect":                 "let a = []; a.length = 4e9; Reflect.construct(Array, a)",
	"getter of length":        "Array.prototype.join.call({get length() { return this.n = (this.n || 0) + 1 > 1 ? 4e9 : 1 }}, 'x')",
	"changed length":          "let n = 0; [].concat({get length() { return n++ ? 4e9 : 1 }, [Symbol.isConcatSpreadable]: true})",
	"typed array of an array": "let a = []; a.length = 4e9; new Float64Array(a)",
	"typed array from":        "Float64Array.from({length: 4e9})",
	"proxy":                   "[].concat(new Proxy([], {get: (t, k) => k === 'length' ? 4e9 : 1, has: () => true}))",
}

// maxHostile is how much memory a process may need in which a hostile script runs: what it
// may have, some operations that cannot be interrupted, and what is garbage by then.
const maxHostile = (3 << 29) * detectorFactor

// maxHostileTime is how long such a process may run: its script is interrupted after half a second, but the machine may be busy.
const maxHostileTime = 2 * time.Minute

// addressSpace, in KiB, keeps the machine from harm when a script is not bounded.
const addressSpace = 8_000_000

func TestHostileScripts(t *testing.T) {
	effort.Long(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name := range hostile {
		if os.Getenv("CI") == "" && name == "doubled text" {
			continue // the thrown getter has the same loop, which fills half a gigabyte
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, out := peakOf(t, exe, name)
			for range 4 { // the goroutine that samples the memory comes late on a busy machine
				if n > maxHostile {
					n, out = peakOf(t, exe, name)
				}
			}
			if n > maxHostile {
				t.Errorf("the process needed %d MiB, five times: %.300s", n>>20, out)
			}
			t.Logf("%.200s", out)
		})
	}
}

// peakOf runs a hostile script in a process of its own, and returns how much memory that needed.
func peakOf(t *testing.T, exe, name string) (peak int, out []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), maxHostileTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", fmt.Sprintf("ulimit -v %d; exec %s", addressSpace, exe))
	cmd.Env = append(os.Environ(), hostileVariable+"="+name)
	out, err := cmd.CombinedOutput()
	if err != nil && bytes.Contains(out, []byte("failed to allocate")) {
		return math.MaxInt, out // by the race detector, which takes several times what the script does
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

// runHostile runs a hostile script between two harmless records. It returns whether these were kept.
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
	kept = len(fates) == 0 // all were
	if len(fates) == 3 {
		fmt.Printf(", %v", strings.ReplaceAll(fmt.Sprint(fates[1].Err), "\n", " "))
		if kept = fates[0].Kind == sdk.Kept && fates[2].Kind == sdk.Kept; !kept {
			fmt.Printf(", harmless records: %+v", fates)
		}
	}
	fmt.Println()
	return kept
}
