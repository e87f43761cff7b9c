package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"
)

var times = []column{{name: "records", format: "%.0f", total: true}, {name: "p50 ms", format: "%.2f"},
	{name: "p99 ms", format: "%.2f"}, {name: "p99.9 ms", format: "%.2f"}, {name: "longest ms", format: "%.2f"}}

var latency = suite{
	name:    "latency",
	title:   "From being made to being written, generator → file (a named pipe that is read as it is written)",
	columns: times,
	cases: []testCase{
		arriving("10,000 records/s", "builtin", 10_000),
		arriving("1 record/s", "builtin", 1),
		arriving("10,000 records/s, executables", "standalone", 10_000),
		arriving("1 record/s, executables", "standalone", 1),
	},
}

// slowest is the duration of a case with one record per second.
const slowest = 8 * time.Second

func arriving(name, kind string, rate int) testCase {
	return testCase{name: name, measure: func(ctx context.Context, b *bench) ([]float64, error) {
		took := b.seconds
		if rate == 1 {
			took = max(took, slowest)
		}
		return b.arrivals(ctx, took, pipeline(0,
			source(kind+":generator", fmt.Sprintf("rate: %d, %s", rate, twoFields)), toFile(kind, 0)))
	}}
}

// arrivals runs pipelines and measures the latency of the records of the first one.
func (b *bench) arrivals(ctx context.Context, took time.Duration, pipelines ...string) ([]float64, error) {
	out, err := openPipe(b.path(outputOf(0)))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	defer context.AfterFunc(ctx, func() { out.Close() })()
	a, err := b.start(ctx, pipelines...)
	if err != nil {
		return nil, err
	}
	late, err := follow(out, took)
	// Later records do not count, but the agent must be able to write them.
	_ = out.SetReadDeadline(time.Time{})
	go func() { _, _ = io.Copy(io.Discard, out) }()
	if err = a.stop(err); err != nil {
		return nil, err
	}
	return distribution(late)
}

// distribution returns the values for the columns of times.
func distribution(late []time.Duration) ([]float64, error) {
	if len(late) == 0 {
		return nil, errors.New("nothing arrived")
	}
	var ms []float64
	for _, d := range late {
		ms = append(ms, float64(d)/float64(time.Millisecond))
	}
	slices.Sort(ms)
	return []float64{float64(len(ms)), quantile(ms, .5), quantile(ms, .99), quantile(ms, .999), ms[len(ms)-1]}, nil
}

// openPipe creates a named pipe and opens it for reading and writing, so that it does not end before there is a writer.
func openPipe(path string) (*os.File, error) {
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		return nil, fmt.Errorf("cannot make the named pipe %s: %w", path, err)
	}
	return os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
}

// follow reads records from f as they arrive, after a warm-up and for the given time, and returns their latencies.
func follow(f *os.File, took time.Duration) (late []time.Duration, err error) {
	buf := make([]byte, 0, 1<<20)
	begin := time.Time{} // start of the measurement: after the first record and the warm-up
	_ = f.SetReadDeadline(time.Now().Add(timeout))
	for {
		if !begin.IsZero() {
			_ = f.SetReadDeadline(begin.Add(took))
		}
		n, err := f.Read(buf[len(buf):cap(buf)])
		now := time.Now()
		if !begin.IsZero() && errors.Is(err, os.ErrDeadlineExceeded) || !begin.IsZero() && now.Sub(begin) > took {
			return late, nil
		}
		if err != nil {
			return nil, err
		}
		if begin.IsZero() {
			begin = now.Add(warmUp)
		}
		buf = buf[:len(buf)+n]
		rest := buf
		for line, after, ok := bytes.Cut(rest, []byte{'\n'}); ok; line, after, ok = bytes.Cut(rest, []byte{'\n'}) {
			rest = after
			if now.After(begin) {
				late = append(late, now.Sub(madeAt(line)))
			}
		}
		buf = buf[:copy(buf, rest)]
	}
}

var createdAt = []byte(`"opencdc.createdAt":"`)

// madeAt returns the creation time in the metadata of the record.
func madeAt(line []byte) time.Time {
	_, after, _ := bytes.Cut(line, createdAt)
	digits, _, _ := bytes.Cut(after, []byte{'"'})
	ns, _ := strconv.ParseInt(string(digits), 10, 64)
	return time.Unix(0, ns)
}
