package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// pods are the logs of containers on a node, as the kubelet and a container runtime keep them: in the CRI format, in
// pods/NAMESPACE_POD_UID/CONTAINER/0.log, with links in the directory containers. Each pod numbers its logs from 0.
type pods struct {
	dir  string
	all  []*pod
	text []byte // buffer of a line
}

// numberOfPods is that of VictoriaMetrics' benchmark.
const numberOfPods = 100

// Of the kubelet's rotation. Its defaults are 10 MiB, 5 files, and a check every 10 seconds.
const (
	maxLogSize  = 1 << 20
	maxLogFiles = 5
	rotateEvery = 2 * time.Second
)

// reopenAfter is the number of lines that a container writes to a renamed file until the runtime opens the new one.
const reopenAfter = 3

type pod struct {
	number int
	path   string // of the file that is written
	file   *os.File
	size   int64
	next   int // number of the next log
	stale  int // lines until a renamed file is opened again; 0: it is not renamed
}

const (
	podNamespace = "shop"
	podContainer = "app"
)

func podName(n int) string { return fmt.Sprintf("pod-%d", n) }

// containerID is the id of the container of a pod.
func containerID(n int) string { return fmt.Sprintf("%064x", n+1) }

// newPods creates the files in dir.
func newPods(dir string) (*pods, error) {
	p := &pods{dir: dir}
	if err := os.MkdirAll(filepath.Join(dir, "containers"), 0o755); err != nil {
		return nil, err
	}
	for n := range numberOfPods {
		path := filepath.Join(dir, "pods", fmt.Sprintf("%s_%s_uid-%d", podNamespace, podName(n), n), podContainer, "0.log")
		one := &pod{number: n, path: path}
		p.all = append(p.all, one)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, errors.Join(err, p.close())
		}
		if err := one.open(); err != nil {
			return nil, errors.Join(err, p.close())
		}
		link := fmt.Sprintf("%s_%s_%s-%s.log", podName(n), podNamespace, podContainer, containerID(n))
		if err := os.Symlink(path, filepath.Join(dir, "containers", link)); err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	return p, nil
}

func (p *pod) open() (err error) {
	p.size, p.stale = 0, 0
	p.file, err = os.OpenFile(p.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	return err
}

func (p *pods) close() error {
	var all []error
	for _, one := range p.all {
		if one.file != nil {
			all = append(all, one.file.Close())
		}
	}
	return errors.Join(all...)
}

// logSize is the size of the text of a log, as in VictoriaMetrics' benchmark.
const logSize = 216

// Fields of a log, in the order of their names, in case a program sorts them.
const (
	fieldPod = "xa_pod"
	fieldSeq = "xb_seq"
	fieldEnd = "xz_end"
)

// endOf is the value of fieldEnd: a log that is not whole has another one, or none.
func endOf(pod, seq int) int { return 7*pod + 13*seq + 1 }

// appendLine appends a line with log seq of a pod.
func appendLine(dst []byte, at time.Time, pod, seq int) []byte {
	dst = at.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000000000Z07:00")
	dst = append(dst, " stdout F "...)
	start := len(dst)
	dst = fmt.Appendf(dst, `{"%s":%d,"%s":%d,"xc_level":"info","xd_text":"`, fieldPod, pod, fieldSeq, seq)
	end := fmt.Sprintf(`","%s":%d}`, fieldEnd, endOf(pod, seq))
	const filler = "a browser asked for the third server and got what it wanted, although it took a while to find it; "
	for len(dst)-start < logSize-len(end) {
		dst = append(dst, filler[:min(len(filler), logSize-len(end)-(len(dst)-start))]...)
	}
	return append(append(dst, end...), '\n')
}

// write writes the next log of a pod, as a container runtime does: with a write for each line.
func (p *pods) write(one *pod, at time.Time) error {
	p.text = appendLine(p.text[:0], at, one.number, one.next)
	if _, err := one.file.Write(p.text); err != nil {
		return err
	}
	one.next++
	one.size += int64(len(p.text))
	if one.stale > 0 {
		if one.stale--; one.stale == 0 {
			if err := one.file.Close(); err != nil {
				return err
			}
			return one.open()
		}
	}
	return nil
}

// writeAll writes n logs of each pod at once.
func (p *pods) writeAll(n int) error {
	at := time.Now()
	for _, one := range p.all {
		w := bufio.NewWriterSize(one.file, 1<<20)
		for range n {
			p.text = appendLine(p.text[:0], at, one.number, one.next)
			one.next++
			if _, err := w.Write(p.text); err != nil {
				return err
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// writeAt writes rate logs per second of all pods together for a time, and rotates the files.
func (p *pods) writeAt(ctx context.Context, rate int, during time.Duration) error {
	const each = 10 * time.Millisecond
	tick := time.NewTicker(each)
	defer tick.Stop()
	began, rotated, written := time.Now(), time.Now(), 0
	for {
		now := time.Now()
		took := min(now.Sub(began), during)
		for due := int(took.Seconds() * float64(rate)); written < due; written++ {
			if err := p.write(p.all[written%len(p.all)], now); err != nil {
				return err
			}
		}
		if took == during {
			return nil
		}
		if now.Sub(rotated) >= rotateEvery {
			rotated = now
			for _, one := range p.all {
				if err := one.rotate(now); err != nil {
					return err
				}
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// rotate treats a log as the kubelet does: it removes the oldest files, compresses those that were renamed before,
// and renames the current one if it is large.
func (p *pod) rotate(now time.Time) error {
	if p.size < maxLogSize || p.stale > 0 {
		return nil
	}
	old, err := filepath.Glob(p.path + ".*")
	if err != nil {
		return err
	}
	slices.Sort(old)
	for len(old) > maxLogFiles-2 {
		if err := os.Remove(old[0]); err != nil {
			return err
		}
		old = old[1:]
	}
	for _, path := range old {
		if !strings.HasSuffix(path, ".gz") {
			if err := compress(path); err != nil {
				return err
			}
		}
	}
	p.stale = reopenAfter
	return os.Rename(p.path, p.path+"."+now.Format("20060102-150405"))
}

// compress replaces a file by a compressed one.
func compress(path string) (err error) {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.Create(path + ".tmp")
	if err != nil {
		return err
	}
	w := gzip.NewWriter(to)
	_, err = io.Copy(w, from)
	if err = errors.Join(err, w.Close(), to.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".tmp", path+".gz"); err != nil {
		return err
	}
	return os.Remove(path)
}
