package file_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Lines that several files get one after the other are read together.
func TestLinesAreGathered(t *testing.T) {
	for name, files := range map[string]int{"one file": 1, "several files": 10} {
		runVirtual(t, name, func(t *testing.T) {
			const lines, between = 1000, time.Millisecond
			dir := t.TempDir()
			var logs []*os.File
			for i := range files {
				f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d.log", i)))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				logs = append(logs, f)
			}
			path := dir
			if files == 1 {
				path = logs[0].Name()
			}
			s := open(t, path, nil)
			go func() {
				for i := range lines {
					_, _ = fmt.Fprintf(logs[i%files], "%d\n", time.Now().UnixNano())
					time.Sleep(between)
				}
			}()
			reads := 0
			for n := 0; n < lines; reads++ {
				records, err := s.Read(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, text := range texts(records) {
					var at int64
					if _, err := fmt.Sscan(text, &at); err != nil {
						t.Fatal(err)
					}
					if waited := time.Since(time.Unix(0, at)); waited > 10*time.Millisecond {
						t.Errorf("line %s waited for %s", text, waited)
					}
				}
				n += len(records)
			}
			if most := lines * int(between) / int(5*time.Millisecond); reads > most+1 {
				t.Errorf("%d reads, want at most %d", reads, most)
			}
		})
	}
}

// A source does not pause while there is something to read in any file.
func TestUnreadContentIsNotDelayed(t *testing.T) {
	for name, several := range map[string]bool{"one file": false, "several files": true} {
		runVirtual(t, name, func(t *testing.T) {
			path := newPath(t)
			write(t, path, strings.Repeat(strings.Repeat("x", 99)+"\n", 20_000))
			lines := 20_000
			if several {
				write(t, filepath.Join(filepath.Dir(path), "slow.log"), "slow\n")
				path, lines = filepath.Dir(path), lines+1
			}
			s := open(t, path, nil)
			begin := time.Now()
			for n := 0; n < lines; {
				records, err := s.Read(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				n += len(records)
			}
			if took := time.Since(begin); took != 0 {
				t.Errorf("pauses of %s", took)
			}
		})
	}
}

// memory is a host that lets batches have few bytes.
type memory int

func (m memory) Batch() int { return int(m) }

func (memory) Reserve(context.Context, int) error { return nil }

// Records of several files in one batch have at most as many bytes as the host allows, unless one file alone has more.
func TestBatchOfSeveralFilesIsBounded(t *testing.T) {
	const most = 4000
	dir := t.TempDir()
	for i := range 20 {
		write(t, filepath.Join(dir, fmt.Sprintf("%02d.log", i)), strings.Repeat(strings.Repeat("x", 99)+"\n", 10))
	}
	s := open(t, dir, nil)
	batches := 0
	for n := 0; n < 200; batches++ {
		records, err := s.Read(sdk.WithMemory(t.Context(), memory(most)))
		if err != nil {
			t.Fatal(err)
		}
		n += len(records)
		if size := len(strings.Join(texts(records), "\n")) + 1; size > most || size < 1000 {
			t.Errorf("a batch of %d bytes", size)
		}
	}
	if batches != 5 {
		t.Errorf("%d batches, want 5 with four files each", batches)
	}
}

// A batch has at most 1,000 records, however many files they are from.
func TestBatchOfManyFilesIsBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		write(t, filepath.Join(dir, fmt.Sprintf("%02d.log", i)), strings.Repeat("x\n", 420))
	}
	s := open(t, dir, nil)
	var sizes []int
	for n := 0; n < 2100; {
		records, err := s.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n += len(records)
		sizes = append(sizes, len(records))
	}
	if len(sizes) != 3 || sizes[0] != 1000 || sizes[1] != 1000 {
		t.Errorf("batches of %v records", sizes)
	}
}

// Reading resumes behind any record of a batch with records of several files.
func TestResumesInsideOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		const files, lines = 5, 10
		for i := range files {
			for n := range lines {
				write(t, filepath.Join(dir, fmt.Sprintf("%d.log", i)), fmt.Sprintf("%d\n", n))
			}
		}
		next := map[string]int{}
		var pos record.Position
		for step := 1; ; step++ {
			s := open(t, dir, pos)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			records, err := s.Read(ctx)
			cancel()
			if errors.Is(err, context.DeadlineExceeded) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			for _, r := range records[:min(step, len(records))] {
				path := r.Metadata.Get("file.path")
				if text := texts([]record.Record{r})[0]; text != fmt.Sprint(next[path]) {
					t.Fatalf("line %s of %s, want %d", text, path, next[path])
				}
				next[path]++
				pos = r.Position
			}
		}
		for path, n := range next {
			if n != lines {
				t.Errorf("%d lines of %s", n, path)
			}
		}
		if len(next) != files {
			t.Errorf("lines of %d files", len(next))
		}
	})
}

// A file that grew fast and then grows slowly needs only a small buffer.
func TestSlowFileHasASmallBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := newPath(t)
		write(t, path, strings.Repeat(strings.Repeat("x", 99)+"\n", 10_000))
		s := open(t, path, nil)
		for n := 0; n < 10_000; {
			records, err := s.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			n += len(records)
		}
		if size := file.BufferSize(s.Source); size < 60<<10 {
			t.Errorf("a fast file has a buffer of %d bytes", size)
		}
		for range 3 {
			write(t, path, "slow\n")
			s.want("slow")
		}
		if size := file.BufferSize(s.Source); size > 50<<10 {
			t.Errorf("a slow file has a buffer of %d bytes", size)
		}
	})
}
