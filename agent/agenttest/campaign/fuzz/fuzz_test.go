// Package fuzz_test fuzzes every parser that has a fuzz test.
package fuzz_test

import (
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var each = flag.Duration("each", 30*time.Minute, "how long each fuzz test runs")

// top is the root of the repository.
const top = "../../../.."

func TestFuzz(t *testing.T) {
	function, found := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`), 0
	err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if _, ends := os.Stat(filepath.Join(name, "go.mod")); ends == nil && name != top {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, fuzz := range function.FindAllStringSubmatch(string(text), -1) {
			found++
			t.Run(fuzz[1], func(t *testing.T) {
				cmd := exec.Command("go", "test", "-run", "^$", "-fuzz", "^"+fuzz[1]+"$", "-fuzztime", each.String(),
					".")
				cmd.Dir = filepath.Dir(name)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", cmd.Dir, err, out)
				}
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("there is no fuzz test")
	}
}
