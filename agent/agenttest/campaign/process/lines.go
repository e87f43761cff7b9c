package process

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
)

// Written returns how often each number is in the file.
func Written(t *testing.T, path string) map[int]int {
	t.Helper()
	times := map[int]int{}
	all, _ := agenttest.NumbersOf(t, path)
	for _, n := range all {
		times[n]++
	}
	return times
}

// Pipelines is a format for two pipelines: made writes generated records at a rate, and tailed copies the lines
// appended to input.log. Its arguments are the directory and the rate in records per second.
const Pipelines = `version: "2.2"
pipelines:
  - id: made
    connectors:
      - id: src
        type: source
        plugin: builtin:generator
        settings: {rate: %[2]d, format.type: structured, format.options.n: int}
      - id: dst
        type: destination
        plugin: builtin:file
        settings: {path: %[1]s/made.jsonl}
  - id: tailed
    connectors:
      - id: src
        type: source
        plugin: builtin:file
        settings: {path: %[1]s/input.log}
      - id: dst
        type: destination
        plugin: builtin:file
        settings: {path: %[1]s/tailed.jsonl}
`

// FeedLines appends numbered lines until ctx ends and returns their number.
func FeedLines(ctx context.Context, path string, rate int) int {
	return Feed(ctx, path, rate/100, strconv.Itoa)
}

// Feed appends the given number of lines to the file every 10 ms until ctx ends, and returns the total. line returns
// the line with a number.
func Feed(ctx context.Context, path string, each int, line func(n int) string) (n int) {
	f, err := os.Create(path)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return n
		case <-tick.C:
			var text []byte
			for range each {
				n++
				text = append(append(text, line(n)...), '\n')
			}
			if _, err := f.Write(text); err != nil {
				panic(err)
			}
		}
	}
}

// Outcome describes an output file.
type Outcome struct {
	Last, Repeated, Torn int
	Oldest               time.Duration // longest time from reading a repeated record to the previous kill
}

// Entry is a line of an output file.
type Entry struct {
	Number int
	ReadAt time.Time
}

// Inspect checks that the numbers in the file run from 1 without a gap. Numbers may repeat only if they were read
// shortly before a kill.
func Inspect(t *testing.T, path string, killed []time.Time) (o Outcome) {
	t.Helper()
	seen := []Entry{{}} // as if record 0 preceded the first
	for line := range LinesOf(t, path) {
		e, err := Parse(line)
		if err != nil {
			o.Torn++
			continue
		}
		if e.Number > seen[len(seen)-1].Number+1 {
			t.Fatalf("%s: %d follows %d", path, e.Number, seen[len(seen)-1].Number)
		}
		if e.Number <= seen[len(seen)-1].Number {
			if !o.repeat(seen, e, killed) {
				t.Errorf("%s: %d follows %d although nothing was killed in between", path, e.Number,
					seen[len(seen)-1].Number)
			}
		}
		seen = append(seen, e)
		o.Last = max(o.Last, e.Number)
	}
	return o
}

// LinesOf yields the lines of a file, of any length: a torn one may be long.
func LinesOf(t *testing.T, path string) iter.Seq[[]byte] {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func([]byte) bool) {
		t.Helper()
		defer f.Close()
		for r := bufio.NewReader(f); ; {
			line, err := r.ReadBytes('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				t.Fatalf("cannot read %s: %v", path, err)
			}
			if len(line) > 0 && !yield(line) || err != nil {
				return
			}
		}
	}
}

// repeat records that the file steps back to e, and reports whether there was a kill between the two reads.
func (o *Outcome) repeat(seen []Entry, e Entry, killed []time.Time) bool {
	first := len(seen) - (seen[len(seen)-1].Number - e.Number) - 1
	before := seen[max(first, 0)]
	o.Repeated += len(seen) - first
	for _, at := range killed {
		if at.After(seen[len(seen)-1].ReadAt) && at.Before(e.ReadAt) {
			o.Oldest = max(o.Oldest, at.Sub(before.ReadAt))
			return true
		}
	}
	return false
}

// Parse reads a line: the number is the line it carries, or its position.
func Parse(line []byte) (Entry, error) {
	var r struct {
		Position []byte
		Metadata map[string]string
		Payload  struct{ After json.RawMessage }
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return Entry{}, err
	}
	text := r.Position
	if len(r.Payload.After) > 0 && r.Payload.After[0] == '"' {
		if err := json.Unmarshal(r.Payload.After, &text); err != nil {
			return Entry{}, err
		}
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return Entry{}, err
	}
	ns, err := strconv.ParseInt(r.Metadata["opencdc.readAt"], 10, 64)
	return Entry{n, time.Unix(0, ns)}, err
}

// CatchUp runs an agent until the last input line has arrived.
func CatchUp(t *testing.T, dir, copied string, want int) {
	t.Helper()
	p := Start(t, dir)
	p.WaitFor(t, fmt.Sprintf("the last of %d lines", want), func() bool {
		// Before this line is logged, SIGTERM would end the process at once.
		return LastSeen(copied) >= want && strings.Contains(p.Log.String(), "agent started")
	})
	p.Terminate(t)
}

// LastSeen returns the number in the last line of a file, 0 if there is none.
func LastSeen(path string) int {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	tail := make([]byte, min(agenttest.FileSize(path), 64<<10))
	if _, err := f.ReadAt(tail, agenttest.FileSize(path)-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return 0
	}
	lines := bytes.Split(bytes.TrimSpace(tail), []byte{'\n'})
	e, _ := Parse(lines[len(lines)-1])
	return e.Number
}
