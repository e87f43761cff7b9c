package watch_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/reconcile/watch"
)

// nobody is a user who owns no files. Permissions count for nobody, even when the
// tests are run by root.
const nobody = 65534

// asNobody calls f with file access as nobody. It works for root only; for other users permissions count anyway. The
// thread is not used for anything else.
func asNobody(f func()) {
	if os.Geteuid() != 0 {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, nobody, 0, 0)
		f()
	}()
	<-done
}

func TestPermissions(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "pipelines")
	must(t, os.Mkdir(dir, 0o755))
	for p := base; p != "/tmp" && p != "/"; p = filepath.Dir(p) {
		_ = os.Chmod(p, 0o755)
	}
	put := func(name, content string, mode os.FileMode) {
		write(t, filepath.Join(dir, name), content)
		must(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	put("a.yaml", "a", 0o644)
	put("b.yaml", "b", 0)
	o := observeAs(t, &watch.Watcher{Dir: dir, Rescan: time.Hour, Poll: 20 * time.Millisecond}, asNobody)
	o.until("what can be read", func(s watch.Snapshot) bool {
		return content(s) == "a.yaml=a b.yaml!" && strings.Contains(s.Files[1].Err.Error(), "permission denied")
	})
	must(t, os.Chmod(filepath.Join(dir, "b.yaml"), 0o644))
	o.until("what can be read now", is("a.yaml=a b.yaml=b"))
	must(t, os.Chmod(dir, 0))
	o.until("that nothing can be read", func(s watch.Snapshot) bool {
		return s.Err != nil && strings.Contains(s.Err.Error(), "permission denied")
	})
	must(t, os.Chmod(dir, 0o755))
	o.until("the directory again", is("a.yaml=a b.yaml=b"))
}
