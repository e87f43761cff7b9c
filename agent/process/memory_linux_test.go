//go:build !race

package process

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	_ "github.com/mattn/go-sqlite3" // allocates the values
)

// Memory that SQLite allocates for a large value goes back to the kernel, regardless of the threads that read it.
func TestLargeValuesAreNotKept(t *testing.T) {
	const size, threads = 16 << 20, 6
	before := debug.SetMemoryLimit(-1)
	LimitMemory(math.MaxInt64)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	db, err := sql.Open("sqlite3", filepath.Join(t.TempDir(), "large.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	read := func() {
		ctx := context.Background()
		conn, err := db.Conn(ctx)
		for range 2 {
			var value []byte
			if err == nil {
				err = conn.QueryRowContext(ctx, "SELECT zeroblob(?)", size).Scan(&value)
			}
		}
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.Close()
	}
	end := make(chan struct{})
	var ended sync.WaitGroup
	for range threads {
		done := make(chan struct{})
		ended.Go(func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			read()
			close(done)
			<-end
		})
		<-done
	}
	debug.FreeOSMemory()
	got := residentAnonymous(t)
	close(end)
	ended.Wait()
	if got > 3*size {
		t.Errorf("%d MiB are resident", got>>20)
	}
}

// residentAnonymous returns the resident memory of this process in bytes that is not mapped from files.
func residentAnonymous(t *testing.T) (bytes int64) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(status), "RssAnon:")
	if _, err := fmt.Sscanf(line, "%d kB", &bytes); err != nil {
		t.Fatal(err)
	}
	return bytes << 10
}
