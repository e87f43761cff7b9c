// Package npm finds the npm packages that the gate installs for campaigns.
package npm

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Dir returns the directory of an npm package. The test fails when .ci/run has not installed it.
func Dir(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join(os.TempDir(), "conduit-npm-"+strconv.Itoa(os.Getuid()), "node_modules",
		filepath.FromSlash(name))
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(fmt.Errorf("the npm package %s is not installed, which .ci/run does: %w", name, err))
	}
	return dir
}
