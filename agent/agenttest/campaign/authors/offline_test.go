package authors

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/built"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/script"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// enterRoot mounts Go, its build cache and /dev/null below $ROOT, and runs commands there, in separate mount and
// network namespaces.
const enterRoot = `set -e
mount --bind "$HOST_GOROOT" "$ROOT/go"
mount --bind "$HOST_GOCACHE" "$ROOT/cache"
mount --bind /dev/null "$ROOT/dev/null"
exec chroot "$ROOT" /bin/sh -c "$COMMANDS"`

// makePlugins are the commands of a user with Go, conduit, and the archive of modules from its package.
const makePlugins = `set -e
cd /work
conduit plugins init mine --modules /modules.tar.zst
(cd mine && go vet ./... && go build -o connectors/mine .)
conduit plugins init --processor upper --modules /modules.tar.zst
(cd upper && go vet ./... && GOOS=wasip1 GOARCH=wasm go build -o ../mine/processors/upper.wasm .)`

// TestPluginsWithoutNetwork writes and builds a connector and a processor in a root directory that has
// Go and conduit, but no network, no module cache and no checkout. An agent runs both.
func TestPluginsWithoutNetwork(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"go", "cache", "dev", "tmp", "work", "bin"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	conduit := filepath.Join(root, "bin/conduit")
	if err := built.Binary(conduit, "github.com/conduit-agent/conduit/cmd/conduit"); err != nil {
		t.Fatal(err)
	}
	output(t, exec.Command(script.Root+"/.ci/modules", conduit, filepath.Join(root, "modules.tar.zst")))
	install(t, root, "/bin/sh")
	install(t, root, conduit)
	if err := os.WriteFile(filepath.Join(root, "dev/null"), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	enter := exec.Command("unshare", "--mount", "--net", "sh", "-c", enterRoot)
	if os.Geteuid() != 0 {
		enter.Args = append([]string{"unshare", "--map-root-user"}, enter.Args[1:]...)
	}
	enter.Env = []string{
		"ROOT=" + root, "HOST_GOROOT=" + goEnv(t, "GOROOT"), "HOST_GOCACHE=" + goEnv(t, "GOCACHE"),
		"COMMANDS=" + makePlugins,
		"HOME=/tmp", "GOROOT=/go", "GOCACHE=/cache", "PATH=/bin:/go/bin:/usr/bin:/usr/sbin:/sbin",
		"GOFLAGS=-mod=vendor -trimpath", "GOPROXY=off", "GOTOOLCHAIN=local", "CGO_ENABLED=0",
	}
	output(t, enter)
	runPlugins(t, conduit, filepath.Join(root, "work/mine"))
}

// install copies the libraries that a program is linked with to the same places below root, and the program itself if
// it is missing.
func install(t *testing.T, root, program string) {
	t.Helper()
	copied := []string{}
	if !strings.HasPrefix(program, root) {
		copied = append(copied, program)
	}
	for _, word := range strings.Fields(output(t, exec.Command("ldd", program))) {
		if filepath.IsAbs(word) {
			copied = append(copied, word)
		}
	}
	for _, path := range copied {
		to := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		output(t, exec.Command("cp", "--dereference", path, to))
	}
}

// runPlugins runs the pipeline that the README of the connector describes, with the processor.
func runPlugins(t *testing.T, conduit, dir string) {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, pipeline, _ := strings.Cut(string(readme), "```yaml\n")
	pipeline, _, _ = strings.Cut(pipeline, "```")
	pipeline += "    processors:\n      - {id: greet, plugin: upper, settings: {maxSize: 1000}}\n"
	if err := os.Mkdir(filepath.Join(dir, "pipelines"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pipelines/mine.yaml"), []byte(pipeline), 0o600); err != nil {
		t.Fatal(err)
	}
	agent := exec.Command(conduit, "run")
	agent.Dir = dir
	agent.Env = append(os.Environ(), "CONDUIT_API_HTTP_ADDRESS=127.0.0.1:0")
	agent.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	agent.Stdout, agent.Stderr = log, log
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = agent.Process.Signal(syscall.SIGTERM)
		if err := agent.Wait(); err != nil {
			t.Errorf("the agent ended with %v", err)
		}
	}()
	wait.For(t, "two rows of the connector", func() bool {
		rows, _ := os.ReadFile(filepath.Join(dir, "out.csv"))
		return bytes.Count(rows, []byte("hello")) >= 2
	}, func() string {
		text, _ := os.ReadFile(log.Name())
		return string(text)
	})
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(output(t, exec.Command("go", "env", name)))
}

// output returns the output of a command, which must succeed.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}
