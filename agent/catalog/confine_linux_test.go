package catalog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/agent/catalog"
)

// No open descriptor of a process, no memory and no disk is a file that a setting may name; the standard input is.
func TestWhatIsNoFile(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = r.Close(), w.Close() }()
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	for path, free := range map[string]bool{
		fmt.Sprintf("/proc/self/fd/%d", r.Fd()):            false,
		fmt.Sprintf("/dev/fd/%d", w.Fd()):                  false,
		fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), r.Fd()): false,
		fmt.Sprintf("/proc/thread-self/fd/%d", r.Fd()):     false,
		"/dev/stdin": true, "/dev/null": true, "/dev/mem": false, "/proc/kcore": false,
		"/proc/self/task/1/environ": false,
		"/proc/self/status":         true,
	} {
		for _, name := range []string{path, link} {
			_ = os.Remove(link)
			if err := os.Symlink(path, link); err != nil {
				t.Fatal(err)
			}
			if err := (&catalog.Paths{Dir: dir}).Check(name); (err == nil) != free {
				t.Errorf("%s: %v, want it allowed: %t", path, err, free)
			}
		}
	}
	disks, _ := filepath.Glob("/sys/block/*")
	for _, disk := range disks {
		path := filepath.Join("/dev", filepath.Base(disk))
		if _, err := os.Stat(path); err == nil && (&catalog.Paths{}).Check(path) == nil {
			t.Errorf("%s is allowed", path)
		}
	}
}
