package kill_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

// appendNumbers appends a line for each number to a file, in one write.
func appendNumbers(path string, first, n int) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var lines []byte
	for i := range n {
		lines = fmt.Appendf(lines, "{\"n\":%d}\n", first+i)
	}
	_, err = f.Write(lines)
	return err
}

// TestFileSource runs the suite with the file connector on both sides: it has no server.
func TestFileSource(t *testing.T) {
	load.Parallel(t, load.Agent)
	kill.RunSource(t, kill.Source{
		Plugin: "builtin:file",
		System: func(_ *testing.T, dir string) *kill.System {
			path := filepath.Join(dir, "ledger")
			return &kill.System{
				Settings: func(string) map[string]string { return map[string]string{"path": path} },
				Produce:  func(_ context.Context, first, n int) error { return appendNumbers(path, first, n) },
			}
		},
	})
}

// TestFilesSource reads several files and occasionally rotates a few. Each call of Produce writes to one file;
// the source guarantees order within each file.
func TestFilesSource(t *testing.T) {
	load.Parallel(t, load.Agent)
	rotated := &rotatedFiles{append: appendNumbers}
	kill.RunSource(t, kill.Source{Plugin: "builtin:file", Group: rotated.group, System: rotated.system})
}

// rotatedFiles is a system of several files that are rotated now and then.
type rotatedFiles struct {
	append func(path string, first, n int) error
	groups []int       // file of each number
	known  map[int]int // by file: the last written number when a position contained the file
}

func (r *rotatedFiles) group(number int) int { return r.groups[number-1] }

func (r *rotatedFiles) system(_ *testing.T, dir string) *kill.System {
	const files = 5
	r.known = map[int]int{}
	return &kill.System{
		Settings: func(string) map[string]string {
			return map[string]string{"path": filepath.Join(dir, "*.log")}
		},
		Produce: func(_ context.Context, first, n int) error {
			k := first % files
			path := filepath.Join(dir, strconv.Itoa(k)+".log")
			if r.known[k] == 0 && positionHas(dir, path) { // else the file would not be read when it is rotated
				r.known[k] = first
			}
			if first%17 == 0 && r.known[k] != 0 && first > r.known[k]+50 {
				_ = os.Rename(path, path+"."+strconv.Itoa(first))
			}
			for range n {
				r.groups = append(r.groups, k)
			}
			return r.append(path, first, n)
		},
	}
}

// TestRawLaneSource copies lines of files that are rotated to a file that is rotated, on the raw lane. Meanwhile an
// inspector is opened and closed, which takes the lines off the lane.
func TestRawLaneSource(t *testing.T) {
	load.Parallel(t, load.Agent)
	rotated := &rotatedFiles{append: appendLongLines}
	seen := &inspections{}
	kill.RunSource(t, kill.Source{
		Plugin: "builtin:file", Group: rotated.group, System: rotated.system, Times: 5, Beside: seen.run,
		Output: func(dir string) (map[string]string, func(context.Context) ([]int, error)) {
			path := filepath.Join(dir, "out.jsonl")
			return map[string]string{"path": path, "rotate.size": "200000", "rotate.compression": "zstd",
					"sdk.record.format": "template", "sdk.record.format.options": `{{ printf "%s" .Payload.After }}`},
				func(ctx context.Context) ([]int, error) { return rotatedRecords(ctx, path, longNumber) }
		},
	})
	if seen.records.Load() == 0 || seen.on.Load() == 0 || seen.off.Load() == 0 {
		t.Errorf("%d records were inspected; the raw lane was on %d times, off %d times", seen.records.Load(),
			seen.on.Load(), seen.off.Load())
	}
}

// longLine returns the line of a number. Its length makes most writes long enough for the raw lane.
func longLine(n int) string {
	return fmt.Sprintf("%d %s", n, strings.Repeat(strconv.Itoa(n%10), 500+n%1500))
}

// appendLongLines appends a long line for each number to a file, in one write.
func appendLongLines(path string, first, n int) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	var text strings.Builder
	for i := range n {
		text.WriteString(longLine(first+i) + "\n")
	}
	_, err = f.WriteString(text.String())
	return err
}

// longNumber returns the number of a line of appendLongLines; ok is false if the line is torn.
func longNumber(line []byte) (n int, ok bool) {
	text := strings.TrimSuffix(string(line), "\n")
	number, _, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(number)
	return n, err == nil && text == longLine(n)
}

// inspections opens and closes inspectors, and counts the records that they see, and the states of the raw lane.
type inspections struct{ records, on, off atomic.Int64 }

func (i *inspections) run(ctx context.Context, api func() *client.Client) {
	for n := 0; ctx.Err() == nil; n++ {
		i.awaitLane(ctx, api)
		one, stop := context.WithTimeout(ctx, time.Second) // the agent may be killed, or the source be idle
		see := i.see(ctx, api, stop)
		switch n % 3 {
		case 0:
			_ = api().Inspect(one, "kill:source", nil, see)
		case 1:
			_ = api().InspectIn(one, "kill:file", nil, see)
		case 2:
			_ = api().Inspect(one, "kill:file", nil, see)
		}
		stop()
	}
}

// awaitLane waits until lines pass on the raw lane again after an inspection, unless the agent is down for a while.
func (i *inspections) awaitLane(ctx context.Context, api func() *client.Client) {
	ctx, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	for ctx.Err() == nil && !i.look(ctx, api(), &i.on, "on") {
		time.Sleep(10 * time.Millisecond)
	}
}

// see counts a record, and ends the inspection at every 20th one.
func (i *inspections) see(ctx context.Context, api func() *client.Client, stop func()) func(client.Message) error {
	return func(client.Message) error {
		if i.records.Add(1)%20 == 0 {
			i.look(ctx, api(), &i.off, "off: an inspector looks at the records")
			stop()
		}
		return nil
	}
}

// look reports whether the raw lane has a state, and counts it in n.
func (i *inspections) look(ctx context.Context, api *client.Client, n *atomic.Int64, state string) bool {
	status, err := api.Status(ctx, "kill")
	if err != nil || status.Rates == nil {
		return false // the agent is down
	}
	if !strings.HasPrefix(status.Rates.Stages["kill:source"].RawLane, state) {
		return false
	}
	n.Add(1)
	return true
}

// positionHas reports whether the store of an agent has a position with a file.
func positionHas(dir, path string) bool {
	for _, name := range []string{"conduit.db", "conduit.db-wal"} {
		if content, err := os.ReadFile(filepath.Join(dir, name)); err == nil &&
			bytes.Contains(content, []byte(path+"=")) {
			return true
		}
	}
	return false
}

// TestFileDestination writes a file that is continuously rotated and compressed.
func TestFileDestination(t *testing.T) {
	load.Parallel(t, load.Agent)
	kill.RunDestination(t, kill.Destination{
		Plugin: "builtin:file",
		System: func(_ *testing.T, dir string) *kill.System {
			path := filepath.Join(dir, "out.jsonl")
			return &kill.System{
				Settings: func(string) map[string]string {
					return map[string]string{"path": path, "rotate.size": "3000", "rotate.compression": "zstd",
						"sdk.record.format": "template", "sdk.record.format.options": "{{ toJson .Payload.After }}"}
				},
				Stored: func(ctx context.Context) ([]int, error) { return rotatedNumbers(ctx, path) },
			}
		},
	})
}

// TestFilesDestination writes files whose names come from a template. The files are rotated, and not all are open at
// the same time. Order is guaranteed within each file.
func TestFilesDestination(t *testing.T) {
	load.Parallel(t, load.Agent)
	const files, open = 5, 3
	kill.RunDestination(t, kill.Destination{
		Plugin: "builtin:file",
		Group:  func(number int) int { return number % files },
		System: func(_ *testing.T, dir string) *kill.System {
			return &kill.System{
				Settings: func(string) map[string]string {
					return map[string]string{
						"path":        dir + fmt.Sprintf("/{{ mod .Payload.After.n %d }}/out.jsonl", files),
						"openFiles":   strconv.Itoa(open),
						"rotate.size": "3000", "rotate.compression": "zstd",
						"sdk.record.format": "template", "sdk.record.format.options": "{{ toJson .Payload.After }}",
					}
				},
				Stored: func(ctx context.Context) (all []int, err error) {
					for k := range files {
						numbers, err := rotatedNumbers(ctx, filepath.Join(dir, strconv.Itoa(k), "out.jsonl"))
						if err != nil && !errors.Is(err, fs.ErrNotExist) {
							return nil, err
						}
						all = append(all, numbers...)
					}
					return all, nil
				},
			}
		},
	})
}

// TestCompressedFilesDestination writes files that are compressed while they are written, whose names come from a
// template with time. They are rotated, and not all are open at the same time.
func TestCompressedFilesDestination(t *testing.T) {
	for compression, extension := range map[string]string{"gzip": ".gz", "zstd": ".zst"} {
		t.Run(compression, func(t *testing.T) {
			load.Parallel(t, load.Agent)
			const files, open = 5, 3
			kill.RunDestination(t, kill.Destination{
				Plugin: "builtin:file",
				Group:  func(number int) int { return number % files },
				System: func(_ *testing.T, dir string) *kill.System {
					return &kill.System{
						Settings: func(string) map[string]string {
							return map[string]string{
								"path": dir + fmt.Sprintf(`/{{ mod .Payload.After.n %d }}/{{ strftime "%%Y" }}.jsonl`, files) +
									extension,
								"openFiles": strconv.Itoa(open), "compression": compression, "rotate.size": "3000",
								"sdk.record.format": "template", "sdk.record.format.options": "{{ toJson .Payload.After }}",
							}
						},
						Stored: func(context.Context) ([]int, error) {
							return packedNumbers(filepath.Join(dir, "[0-9]", "*.jsonl"+extension))
						},
					}
				},
			})
		})
	}
}

// packedNumbers returns the numbers in compressed files, whose ends may be incomplete.
func packedNumbers(pattern string) (all []int, err error) {
	names, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	// The names of a file begin with the year; the current one has no time behind it and is the newest.
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(filepath.Dir(a), filepath.Dir(b)), cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	for _, name := range names {
		packed, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return packedNumbers(pattern) // it was rotated meanwhile
		}
		if err != nil {
			return nil, err
		}
		var r io.Reader = bytes.NewReader(packed)
		if filepath.Ext(name) == ".gz" {
			r, err = gzip.NewReader(r)
		} else {
			r, err = zstd.NewReader(r, 128<<20)
		}
		if err != nil {
			continue // the first member is incomplete
		}
		content, _ := io.ReadAll(r) // a member at the end may be incomplete
		for line := range bytes.Lines(content) {
			var payload struct{ N int }
			if bytes.HasSuffix(line, []byte("\n")) && json.Unmarshal(line, &payload) == nil {
				all = append(all, payload.N)
			}
		}
	}
	return all, nil
}

// rotatedNumbers returns the numbers in a file and in its rotated files, some of which are compressed meanwhile.
func rotatedNumbers(ctx context.Context, path string) ([]int, error) {
	return rotatedRecords(ctx, path, func(line []byte) (int, bool) {
		var payload struct{ N int }
		err := json.Unmarshal(line, &payload)
		return payload.N, err == nil
	})
}

// rotatedRecords is rotatedNumbers for lines whose number is returned by number, which reports torn lines, too.
func rotatedRecords(
	ctx context.Context, path string, number func(line []byte) (n int, ok bool),
) (all []int, err error) {
	names, err := filepath.Glob(path[:len(path)-len(".jsonl")] + "-*.jsonl*")
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, name := range append(names, path) {
		plain := name
		if filepath.Ext(name) == ".zst" {
			plain = name[:len(name)-len(".zst")]
		}
		if seen[plain] {
			continue
		}
		seen[plain] = true
		content, err := unpacked(ctx, name)
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(content) {
			if n, ok := number(line); ok {
				all = append(all, n)
			}
		}
	}
	return all, nil
}

// unpacked returns the content of a file, decompressed by the connector if necessary.
func unpacked(ctx context.Context, path string) ([]byte, error) {
	if filepath.Ext(path) != ".zst" {
		return os.ReadFile(path)
	}
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	s := file.Connector(zstd.Codec{}).NewSource()
	defer func() { _ = s.Teardown(ctx) }()
	if err := s.Configure(ctx, map[string]string{"path": path, "compression": "zstd", "multiline.start": "^never$",
		"multiline.timeout": "1ms"}); err != nil {
		return nil, err
	}
	if err := s.Open(ctx, nil); err != nil {
		return nil, err
	}
	records, err := s.Read(ctx)
	if err != nil {
		return nil, err
	}
	content, _ := records[0].After.Raw()
	return content, nil
}
