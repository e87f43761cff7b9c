package kill_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
)

// TestContainersSource reads the logs of several pods. Partial lines of two streams interleave in them, and they are
// rotated and compressed as the kubelet does. Whole lines must arrive, in order within each stream.
func TestContainersSource(t *testing.T) {
	load.Parallel(t, load.Agent)
	logs := &containerLogs{known: map[int]int{}, rotated: map[int]string{}}
	kill.RunSource(t, kill.Source{Plugin: "builtin:file", Group: logs.group, System: logs.system, Number: wholeLine,
		Times: 5})
	if logs.rotations == 0 || logs.torn == 0 {
		t.Errorf("%d rotations, %d of them in the middle of a line", logs.rotations, logs.torn)
	}
}

const (
	pods    = 3
	streams = 2
)

// containerLogs is a system of the logs of containers.
type containerLogs struct {
	dir       string
	groups    []int          // pod and stream of each number
	known     map[int]int    // by pod: the last written number when a position contained the file
	rotated   map[int]string // by pod: the rotated file that is not compressed yet
	rotations int
	torn      int // rotations in the middle of a line
}

func (c *containerLogs) group(number int) int { return c.groups[number-1] }

func (c *containerLogs) path(pod int) string {
	return filepath.Join(c.dir, "pods", fmt.Sprintf("shop_web-%d_4c1f", pod), "app", "0.log")
}

func (c *containerLogs) system(t *testing.T, dir string) *kill.System {
	c.dir = dir
	for pod := range pods {
		if err := os.MkdirAll(filepath.Dir(c.path(pod)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return &kill.System{
		Settings: func(string) map[string]string {
			return map[string]string{"path": filepath.Join(dir, "pods", "*", "*", "*.log"), "format": "cri",
				"partial.timeout": "10m"}
		},
		Produce: c.produce,
	}
}

// produce writes numbers to the log of one pod. It divides long lines, and mixes their parts.
func (c *containerLogs) produce(ctx context.Context, first, n int) error {
	pod := first % pods
	for i := range n {
		c.groups = append(c.groups, streams*pod+(first+i)%streams)
	}
	var parts [streams][]string // physical lines
	for i := range n {
		stream := (first + i) % streams
		parts[stream] = append(parts[stream], criParts(first+i, []string{"stdout", "stderr"}[stream])...)
	}
	rotateAt := -1
	if c.mayRotate(pod, first) {
		rotateAt = first % (len(parts[0]) + len(parts[1]))
	}
	last := ""
	for i := 0; len(parts[0])+len(parts[1]) > 0; i++ {
		stream := i * first / 3 % streams
		if len(parts[stream]) == 0 {
			stream = 1 - stream
		}
		if i == rotateAt {
			if strings.Contains(last, " P ") {
				c.torn++
			}
			if err := c.rotate(pod); err != nil {
				return err
			}
		}
		last = parts[stream][0]
		if err := appendText(c.path(pod), last); err != nil {
			return err
		}
		parts[stream] = parts[stream][1:]
		if i%8 == 7 && ctx.Err() == nil { // the agent reads, or is killed, while this waits for the disk
			if err := syncFile(c.path(pod)); err != nil {
				return err
			}
		}
	}
	return nil
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// mayRotate reports whether the log is rotated now. A file that is in no position would not be read after that.
func (c *containerLogs) mayRotate(pod, first int) bool {
	if c.known[pod] == 0 && positionHas(c.dir, c.path(pod)) {
		c.known[pod] = first
	}
	return first%7 == 0 && c.known[pod] != 0 && first > c.known[pod]+50
}

// criLine returns the line of a number.
func criLine(n int) string { return fmt.Sprintf(`{"n":%d,"text":%q}`, n, strings.Repeat("x", n%300)) }

// criParts returns the line of a number as a runtime writes it.
func criParts(n int, stream string) (lines []string) {
	const size = 64
	text := criLine(n)
	for i := 0; ; i++ {
		when := time.Unix(int64(n), int64(i)).UTC().Format(time.RFC3339Nano)
		if len(text) <= size {
			return append(lines, fmt.Sprintf("%s %s F %s\n", when, stream, text))
		}
		lines = append(lines, fmt.Sprintf("%s %s P %s\n", when, stream, text[:size]))
		text = text[size:]
	}
}

// wholeLine returns the number of a record, or an error if the record is not the whole line.
func wholeLine(r *kill.Line) (int, error) {
	n, err := kill.NumberOf(r)
	if err != nil {
		return 0, err
	}
	var got, want struct{ Text string }
	if err := r.Decode(&got); err != nil {
		return 0, err
	}
	if err := json.Unmarshal([]byte(criLine(n)), &want); err != nil {
		return 0, err
	}
	if got != want || r.Metadata["log.iostream"] == "" || r.Metadata["k8s.pod.name"] == "" ||
		r.Metadata["file.partial"] != "" {
		return 0, fmt.Errorf("the line of number %d is torn, or its metadata is not complete: %v", n, r.Metadata)
	}
	return n, nil
}

// rotate rotates the log of a pod like the kubelet: it compresses the rotated file of before, and renames the log.
func (c *containerLogs) rotate(pod int) error {
	c.rotations++
	if old := c.rotated[pod]; old != "" {
		content, err := os.ReadFile(old)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := w.Write(content); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		if err := os.WriteFile(old+".tmp", packed.Bytes(), 0o644); err != nil {
			return err
		}
		if err := os.Rename(old+".tmp", old+".gz"); err != nil {
			return err
		}
		if err := os.Remove(old); err != nil {
			return err
		}
	}
	c.rotated[pod] = c.path(pod) + time.Unix(int64(c.rotations), 0).UTC().Format(".20060102-150405")
	if err := os.Rename(c.path(pod), c.rotated[pod]); err != nil {
		return err
	}
	return appendText(c.path(pod), "")
}

func appendText(path, text string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if failed := f.Close(); err == nil {
		err = failed
	}
	return err
}
