// Package built keeps the binaries that tests build, between packages and between runs, so that only changed code is
// compiled and linked again.
package built

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// started is the working directory at the start of the test binary; a test may change the directory later.
var started, _ = os.Getwd()

// unused is the time without a use after which a file is removed.
const unused = 3 * 24 * time.Hour

// Modules returns the directory for the compiled processors of a test package. Each version of the libraries has a
// separate directory.
func Modules(tests string) (dir string, err error) {
	checkout, err := findCheckout()
	if err != nil {
		return "", err
	}
	sums, err := os.ReadFile(filepath.Join(checkout, "go.sum"))
	if err != nil {
		return "", err
	}
	return stay(checkout, fmt.Sprintf("modules-%s-%.6x", tests, sha256.Sum256(sums)))
}

func findCheckout() (string, error) {
	module, err := goCommand("env", "GOMOD")
	if err != nil {
		return "", fmt.Errorf("cannot find the checkout: %w", err)
	}
	return filepath.Dir(module), nil
}

// goCommand returns the line that a go command prints.
func goCommand(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = started
	line, err := cmd.Output()
	return strings.TrimSpace(string(line)), err
}

// stay returns a persistent directory, which tests of a checkout share under a name.
func stay(checkout, name string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	root := filepath.Join(cache, "conduit-tests", strings.ReplaceAll(strings.Trim(checkout, string(filepath.Separator)),
		string(filepath.Separator), "-"))
	dir := filepath.Join(root, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	at := time.Now()
	if err := os.Chtimes(dir, at, at); err != nil {
		return "", err
	}
	return dir, removeUnused(root, at.Add(-unused))
}

func removeUnused(root string, before time.Time) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.ModTime().Before(before) {
			if err := os.RemoveAll(filepath.Join(root, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// current holds the directories that this process knows to be up to date. Checking all sources takes the go command
// more than a second of CPU time.
var current sync.Map

// Binary builds pkg with env added to the environment and copies the executable to path. It reuses a previously built
// executable if that is up to date. The versions of dependencies are those of the module of pkg, as in a release, also
// in tests of another module.
func Binary(path, pkg string, env ...string) error {
	module, err := goCommand("list", "-e", "-f", "{{.Module.Dir}}", pkg) // -e: it may be for another system
	if err != nil {
		return fmt.Errorf("cannot find the module of %s: %w", pkg, err)
	}
	dir, err := stay(module,
		"bin-"+strings.NewReplacer("/", "-", "=", "-", ".", "-", " ", "-").Replace(strings.Join(append(env, pkg), "-")))
	if err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // also unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	kept := filepath.Join(dir, "binary")
	if _, ok := current.Load(dir); !ok {
		if err := build(module, kept, pkg, env); err != nil {
			return err
		}
		current.Store(dir, nil)
	}
	// A file that this process wrote could not be executed while another test starts a process.
	if out, err := exec.Command("cp", kept, path).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot copy %s: %w\n%s", kept, err, out)
	}
	return nil
}

// build builds pkg of a module as a file.
func build(module, file, pkg string, env []string) error {
	// Without debug information, which takes half of the link time, and without the commit, which would change the file
	// each time.
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-w", "-o", file, pkg)
	cmd.Dir, cmd.Env = module, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build %s: %w\n%s", pkg, err, out)
	}
	return nil
}
