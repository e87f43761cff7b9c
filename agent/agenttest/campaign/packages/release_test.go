package packages

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/script"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
)

var (
	compared = flag.String("compared", "amd64", "`targets` that are built twice and compared")
	cross    = flag.String("cross", "arm64 armv7 static", "`targets` that are built once, static among them")
)

// The directory of the unit, and the page that says how to install it.
const (
	systemd     = script.Root + "/cmd/conduit/systemd"
	installPage = script.Root + "/cmd/conduit/docs/INSTALL.md"
)

// TestReproducible builds the artifacts of a release twice, the second time without a build cache, and compares them.
func TestReproducible(t *testing.T) {
	server.Need(t, "minisign", "minisign")
	needCompilers(t, *compared)
	ci(t, []string{"TARGETS=" + *compared}, "reproducible")
}

// TestCrossBuilds builds the packages for other machines and the static binary of the image, and starts each binary in
// an emulator.
func TestCrossBuilds(t *testing.T) {
	dir := crossBuilds(t)
	for target, files := range map[string][]string{
		"amd64":  {"conduit_*_amd64.deb", "conduit-*.x86_64.rpm", "conduit-edge-linux-amd64"},
		"arm64":  {"conduit_*_arm64.deb", "conduit-*.aarch64.rpm", "conduit-edge-linux-arm64"},
		"armv7":  {"conduit_*_armhf.deb", "conduit-*.armv7hl.rpm", "conduit-edge-linux-armv7"},
		"static": {"conduit-static-linux-amd64", "conduit-edge-static-linux-amd64", "container/conduit"},
	} {
		if !strings.Contains(" "+*cross+" ", " "+target+" ") {
			continue
		}
		for _, pattern := range append(files, "conduit-"+target+".cdx.json") {
			if found, err := filepath.Glob(filepath.Join(dir, pattern)); err != nil || len(found) != 1 {
				t.Errorf("%s: there are the files %v of %s, %v", target, found, pattern, err)
			}
		}
	}
}

// TestBillOfMaterials checks that the software bill of materials lists the libraries of the binary, including those in
// C, and the standard library.
func TestBillOfMaterials(t *testing.T) {
	var bill struct {
		Components []struct{ Name, Version, Purl string }
	}
	text := ci(t, nil, "sbom", filepath.Join(script.Binaries(t), "conduit"))
	if err := json.Unmarshal([]byte(text), &bill); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, c := range bill.Components {
		known[c.Name] = c.Version != "" && c.Purl != ""
	}
	for _, name := range []string{"github.com/mattn/go-sqlite3", "stdlib"} {
		if !known[name] {
			t.Errorf("%d components lack %s", len(known), name)
		}
	}
}

// needCompilers fails the test when a compiler, or an emulator, of the targets is missing.
func needCompilers(t *testing.T, targets string) {
	t.Helper()
	for _, target := range strings.Fields(targets) {
		switch target {
		case "arm64":
			server.Need(t, "aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu, with libc6-dev-arm64-cross")
			server.Need(t, "qemu-aarch64-static", "qemu-user-static")
		case "armv7":
			server.Need(t, "arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf, with libc6-dev-armhf-cross")
			server.Need(t, "qemu-arm-static", "qemu-user-static")
		case "static":
			server.Need(t, "musl-gcc", "musl-tools")
		}
	}
}

// crossBuilds returns the directory of a release for the targets, which is built once and shared by tests.
func crossBuilds(t *testing.T) string {
	t.Helper()
	needCompilers(t, *cross)
	dir, err := builtOnce()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

var builtOnce = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(scratch, "cross")
	return dir, releaseTo(dir, "v0.1.0", *cross)
})

// release builds the release of a version for the given targets into dir.
func release(t *testing.T, dir, version, targets string) {
	t.Helper()
	if err := releaseTo(dir, version, targets); err != nil {
		t.Fatal(err)
	}
}

func releaseTo(dir, version, targets string) error {
	cmd := exec.Command(script.Root + "/.ci/release")
	cmd.Env = append(os.Environ(), "OUT="+dir, "TARGETS="+targets, "VERSION="+version, "COMMIT=test",
		"SOURCE_DATE_EPOCH=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(errors.New("cannot build the release"), err, errors.New(string(out)))
	}
	return nil
}

// ci runs a script of .ci, with env added to its environment, and returns its output. The test fails if the script
// fails.
func ci(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(script.Root+"/.ci/"+name, args...)
	cmd.Env = append(os.Environ(), env...)
	return output(t, cmd)
}

// output runs a command and returns its standard output. The test fails if the command fails.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, out, &complaints)
	}
	return string(out)
}

// scratch is shared by tests.
var scratch string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", ""); err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(scratch) }()
		return m.Run()
	}())
}
