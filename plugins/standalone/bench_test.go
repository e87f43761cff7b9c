package standalone_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/standalone"
	"github.com/conduit-agent/conduit/plugins/wire"
)

// BenchmarkForward moves records from one process to another as fast as possible.
func BenchmarkForward(b *testing.B) {
	for _, size := range []string{"1", "100", "1000"} {
		b.Run("batch="+size, func(b *testing.B) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			exe, err := os.Executable()
			if err != nil {
				b.Fatal(err)
			}
			c := &standalone.Client{Path: exe, Env: append(os.Environ(), roleVariable+"=fast"),
				Log: slog.New(slog.DiscardHandler)}
			s, err := c.Source(ctx, "pipe:src")
			if err != nil {
				b.Fatal(err)
			}
			d, err := c.Destination(ctx, "pipe:dst")
			if err != nil {
				b.Fatal(err)
			}
			var settled atomic.Int64
			err = errors.Join(
				s.Configure(ctx, map[string]string{"count": strconv.Itoa(b.N), "batch": size}),
				s.Open(ctx, nil), d.Configure(ctx, nil),
				d.Open(ctx, func(n int, _ error) { settled.Add(int64(n)) }))
			if err != nil {
				b.Fatal(err)
			}
			before := cpu()
			b.ResetTimer()
			for n := 0; n < b.N; {
				batch, err := s.Read(ctx)
				if errors.Is(err, io.EOF) || err != nil {
					b.Fatal(err)
				}
				n += batch.Len()
				if err := d.Write(ctx, batch); err != nil {
					b.Fatal(err)
				}
			}
			if err := d.Flush(ctx); err != nil || settled.Load() != int64(b.N) {
				b.Fatal(settled.Load(), err)
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64((cpu()-before).Nanoseconds())/float64(b.N), "host-ns/record")
			if err := errors.Join(s.Teardown(ctx), d.Teardown(ctx)); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// cpu returns the CPU time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// serveFast serves connectors that cost next to nothing.
func serveFast() {
	wire.Serve(sdk.Connector{
		Name: "fast", Version: "v1.0.0",
		NewSource:      func() sdk.Source { return &countSource{acks: os.DevNull} },
		NewDestination: func() sdk.Destination { return &nullDestination{} },
	})
}

type nullDestination struct{ sdk.DestinationBase }

func (*nullDestination) Parameters() sdk.Parameters                         { return nil }
func (*nullDestination) Configure(context.Context, map[string]string) error { return nil }
func (*nullDestination) Open(context.Context) error                         { return nil }
func (*nullDestination) Write(_ context.Context, r []record.Record) (int, error) {
	return len(r), nil
}
