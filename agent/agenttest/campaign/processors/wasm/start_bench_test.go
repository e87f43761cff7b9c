package wasm_test

import (
	"cmp"
	"flag"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor/wasm"
)

var module = flag.String("module", "", "`file` of a module that BenchmarkSecondStart starts")

// BenchmarkSecondStart starts a previously compiled module, with nothing in memory, until its processor is open. The
// flag -module selects another module than the SDK's.
func BenchmarkSecondStart(b *testing.B) {
	m := newModules(b, wasm.Options{CacheDir: b.TempDir()}, map[string]string{"it": cmp.Or(*module, sdkModule)})
	open(b, find(b, m, "with-sdk"), setup{})
	before := usage(b)
	for b.Loop() {
		again := wasm.New(m.Options)
		p := open(b, find(b, again, "with-sdk"), setup{})
		if err := p.Teardown(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := again.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	used := usage(b)
	n := float64(b.N) * 1e6
	b.ReportMetric(float64(used.user-before.user)/n, "user-ms/op")
	b.ReportMetric(float64(used.system-before.system)/n, "system-ms/op")
}

type cpuTime struct{ user, system time.Duration }

func usage(b *testing.B) cpuTime {
	b.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return cpuTime{time.Duration(r.Utime.Nano()), time.Duration(r.Stime.Nano())}
}
