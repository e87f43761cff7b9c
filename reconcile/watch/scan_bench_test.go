package watch_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/reconcile/watch"
)

// BenchmarkScan measures a scan of 10,000 unchanged files, and a scan that reads every file again.
func BenchmarkScan(b *testing.B) {
	dir := b.TempDir()
	text := make([]byte, 600)
	for i := range 10_000 {
		path := filepath.Join(dir, fmt.Sprintf("p%04d.yaml", i))
		old := time.Now().Add(-time.Hour)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			b.Fatal(err)
		}
		if err := os.Chtimes(path, old, old); err != nil {
			b.Fatal(err)
		}
	}
	written := time.Now()
	wait.For(b, "a time of change that differs from the next one", func() bool {
		return time.Since(written) > 2100*time.Millisecond
	})
	for _, all := range []bool{false, true} {
		b.Run(fmt.Sprintf("all=%v", all), func(b *testing.B) {
			scan := (&watch.Watcher{Dir: dir}).Scans()
			scan(false)
			before := cpuTime()
			for b.Loop() {
				scan(all)
			}
			b.ReportMetric(float64((cpuTime()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// cpuTime returns the CPU time of the process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
