package crash_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/process"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// A power cut at any moment, during a start or later, loses nothing and reorders nothing, in files and in a spool.
func TestPowerCutsLoseNothing(t *testing.T) {
	load.Parallel(t, load.Agent)
	const rate = 5000 // records per second in each pipeline
	d := newDisk(t)
	input := filepath.Join(t.TempDir(), "input.log") // on a disk without power cuts
	text := fmt.Sprintf(process.Pipelines, d.dir, rate)
	text = strings.ReplaceAll(text, d.dir+"/input.log", input)
	_, spooled, _ := strings.Cut(fmt.Sprintf(spoolPipelines, d.dir), "pipelines:\n")
	text += strings.ReplaceAll(spooled, d.dir+"/input.log", input) +
		fmt.Sprintf(rotatedPipeline+isolatedPipeline, input, d.dir)
	process.WritePipelines(t, d.dir, text)
	d.unmount(t) // writes all lines out
	d.mount(t)
	feed, fed := context.WithCancel(t.Context())
	lines := make(chan int)
	go func() { lines <- process.FeedLines(feed, input, rate) }()

	made, tailed, spooledOut := filepath.Join(d.dir, "made.jsonl"), filepath.Join(d.dir, "tailed.jsonl"),
		filepath.Join(d.dir, "out.jsonl")
	rotated, isolated := filepath.Join(d.dir, "rotated.jsonl"), filepath.Join(d.dir, "isolated.jsonl")
	n := *cuts
	cuts := make([]time.Time, n)
	for i := range n {
		p := process.Start(t, d.dir)
		if i%3 > 0 {
			p.WaitGrowth(t, made, tailed, spooledOut)
			p.AwaitBytes(t, made, rand.Int64N(120_000)) // any moment
		} else {
			lines := rand.IntN(6) // any moment of the start
			p.WaitFor(t, fmt.Sprintf("%d lines of log", lines), func() bool {
				return strings.Count(p.Log.String(), "\n") >= lines
			})
		}
		d.cut(t)
		p.Kill()
		cuts[i] = time.Now()
		d.unmount(t)
		d.mount(t)
	}
	fed()
	want := <-lines
	process.CatchUp(t, d.dir, tailed, want)
	process.CatchUp(t, d.dir, spooledOut, want)
	process.CatchUp(t, d.dir, rotated, want)
	process.CatchUp(t, d.dir, isolated, want)
	rotated = joinRotated(t, rotated)

	for _, path := range []string{made, tailed, rotated} {
		o := process.Inspect(t, path, cuts)
		t.Logf("%s: %d records, %d power cuts, %d repeated, read at most %v before the cut, %d torn lines",
			filepath.Base(path), o.Last, n, o.Repeated, o.Oldest, o.Torn)
	}
	spoolArrived(t, spooledOut, want, n)
	isolatedArrived(t, isolated, want, n)
	for _, path := range []string{tailed, rotated} {
		if o := process.Inspect(t, path, cuts); o.Last != want {
			t.Errorf("%s: %d of %d lines arrived", filepath.Base(path), o.Last, want)
		}
	}
}

// rotatedPipeline rotates its file often, and compresses.
const rotatedPipeline = `  - id: rotated
    connectors:
      - {id: src, type: source, plugin: builtin:file, settings: {path: %[1]s}}
      - {id: dst, type: destination, plugin: builtin:file, settings: {path: %[2]s/rotated.jsonl, rotate.size: 100000,
         rotate.compression: gzip}}
`

// isolatedPipeline has a destination that is slower than its source, so that most records wait in its log at a cut.
const isolatedPipeline = `  - id: isolated
    connectors:
      - {id: src, type: source, plugin: builtin:file, settings: {path: %[1]s}}
      - {id: fast, type: destination, plugin: builtin:file, settings: {path: %[2]s/sibling.jsonl}}
      - {id: dst, type: destination, plugin: builtin:file, settings: {path: %[2]s/isolated.jsonl,
         sdk.rate.perSecond: 20000}, isolate: {}}
`

// isolatedArrived checks that all lines arrived in order. After an end of the agent, lines that were not settled come
// again: from the source into the log, and into the destination from an earlier place of the log, with earlier times of
// reading.
func isolatedArrived(t *testing.T, path string, want, ends int) {
	t.Helper()
	var last process.Entry
	highest, back, torn := 0, 0, 0
	for line := range process.LinesOf(t, path) {
		e, err := process.Parse(line)
		switch {
		case err != nil:
			torn++
			continue
		case e.Number > highest+1, e.Number > last.Number+1 && !e.ReadAt.Before(last.ReadAt):
			t.Fatalf("%s: %d follows %d; %d was the highest", path, e.Number, last.Number, highest)
		case e.Number != last.Number+1:
			back++
		}
		last, highest = e, max(highest, e.Number)
	}
	t.Logf("%s: %d records, the agent ended %d times, %d steps back, %d torn lines", filepath.Base(path), highest, ends,
		back, torn)
	if highest != want || torn > ends {
		t.Errorf("%s: %d of %d lines arrived, with %d torn lines although the agent ended %d times", path, highest, want,
			torn, ends)
	}
}

// joinRotated joins a file and its rotated files into one file, and returns its path. If a file also exists compressed,
// only one is used.
func joinRotated(t *testing.T, path string) string {
	t.Helper()
	names, err := filepath.Glob(strings.TrimSuffix(path, ".jsonl") + "-*.jsonl*")
	if err != nil || len(names) < 3 {
		t.Fatalf("there are the rotated files %q: %v", names, err)
	}
	var all bytes.Buffer
	for _, name := range append(names, path) {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if packed, ok := strings.CutSuffix(name, ".gz"); ok {
			if slices.Contains(names, packed) {
				continue
			}
			r, err := gzip.NewReader(bytes.NewReader(content))
			if err == nil {
				content, err = io.ReadAll(r)
			}
			if err != nil {
				t.Fatalf("cannot read %s: %v", name, err)
			}
		}
		all.Write(content)
		if len(content) > 0 && content[len(content)-1] != '\n' {
			all.WriteByte('\n') // a torn line, which ends its file
		}
	}
	joined := path + ".joined"
	if err := os.WriteFile(joined, all.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return joined
}

// disk is a separate file system with simulated power cuts.
type disk struct{ image, dir string }

// newDisk creates a disk with these options of mkfs.ext4 and mounts it. This requires loop devices and the right to
// mount.
func newDisk(t *testing.T, options ...string) *disk {
	t.Helper()
	d := &disk{image: filepath.Join(t.TempDir(), "image"), dir: t.TempDir()}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.image, 8<<30); err != nil { // sparse: it takes no space until written
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", append(options, "-q", "-F", d.image)...).CombinedOutput(); err != nil {
		t.Fatalf("cannot make a file system with mkfs.ext4, of the package e2fsprogs: %v %s", err, out)
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Fatalf("there are no loop devices: %v", err)
	}
	if out, err := d.tryMount(); err != nil {
		t.Fatalf("cannot mount a file system, run it as root: %v %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", d.dir).Run() })
	return d
}

func (d *disk) tryMount() ([]byte, error) {
	return exec.Command("mount", "-o", "loop", d.image, d.dir).CombinedOutput()
}

// mount mounts the disk. While a process in another mount namespace holds a copy of the previous mount, the kernel
// returns the file system that was shut down.
func (d *disk) mount(t *testing.T) {
	t.Helper()
	wait.For(t, "a mounted file system that can be written to", func() bool {
		if out, err := d.tryMount(); err != nil {
			t.Fatalf("cannot mount: %v %s", err, out)
		}
		probe := filepath.Join(d.dir, "probe")
		err := os.WriteFile(probe, nil, 0o600)
		if err == nil {
			err = os.Remove(probe)
		}
		if err != nil {
			d.unmount(t)
		}
		return err == nil
	})
}

func (d *disk) unmount(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("umount", d.dir).CombinedOutput(); err != nil {
		t.Fatalf("cannot unmount: %v %s", err, out)
	}
}

// The ioctl that makes ext4 shut down and write nothing more, not even its journal: see EXT4_IOC_SHUTDOWN and
// EXT4_GOING_FLAGS_NOLOGFLUSH in fs/ext4/ext4.h of the kernel.
const (
	ext4Shutdown = 0x8004587D
	noLogFlush   = 2
)

// cut cuts the power: data that is not on the disk by now is lost.
func (d *disk) cut(t *testing.T) {
	t.Helper()
	f, err := os.Open(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	how := uint32(noLogFlush)
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), ext4Shutdown,
		uintptr(unsafe.Pointer(&how))); errno != 0 {
		t.Fatalf("cannot cut the power: %v", errno)
	}
}
