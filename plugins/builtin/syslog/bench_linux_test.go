package syslog_test

import (
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// BenchmarkDestination sends batches to a server in the same process that reads everything. The CPU time includes both.
func BenchmarkDestination(b *testing.B) {
	for _, size := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("%d-records", size), func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			go func() {
				if c, err := l.Accept(); err == nil {
					_, _ = io.Copy(io.Discard, c)
				}
			}()
			d := destination(b, l.Addr().String()).(sdk.AsyncDestination)
			var batch []record.Record
			for i := range size {
				batch = append(batch,
					some(fmt.Sprintf("203.0.113.%d - - [10/Oct/2026:13:55:36 +0000] \"GET /index.html HTTP/1.1\" "+
						"200 2326", i%256))...)
			}
			begin := cpuTime(b)
			for b.Loop() {
				if err := d.WriteAsync(b.Context(), batch, func(int, error) {}); err != nil {
					b.Fatal(err)
				}
			}
			if err := d.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
			records := float64(b.N * size)
			b.ReportMetric(records/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64((cpuTime(b)-begin).Nanoseconds())/1000/records, "CPU-µs/record")
		})
	}
}

// cpuTime returns the CPU time of the process.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
