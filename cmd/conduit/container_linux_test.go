package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

const (
	maxImage  = 25_000_000 // bytes, compressed
	baseImage = 2_000_000  // of them the base
)

// startImage runs a command in the root directory of an image, which is read-only but for what is mounted
// there, as the user of the image and without capabilities.
const startImage = `set -e
mount --bind "$ROOT" "$ROOT"
mount -o remount,bind,ro "$ROOT"
mount -t tmpfs tmpfs "$ROOT/tmp"
mount --bind "$STATE" "$ROOT/var/lib/conduit"
mount -t proc proc "$ROOT/proc"
user=$1; shift
exec setpriv --no-new-privs --bounding-set=-all,+sys_chroot,+setuid,+setgid chroot --userspec="$user" --groups= "$ROOT" "$@"`

// TestContainer makes the root directory of the image as the Containerfile says, runs its command there,
// and asks its health check.
func TestContainer(t *testing.T) {
	files := imageFiles(t)
	c := readContainerfile(t, filepath.Join(files, "Containerfile"))
	root, state := t.TempDir(), t.TempDir()
	if c.user != "65532:65532" || c.value["VOLUME"] != "/var/lib/conduit" {
		t.Errorf("the user is %q, the volume %q", c.user, c.value["VOLUME"])
	}
	for _, dir := range []string{"tmp", "proc", "dev", "etc/conduit/pipelines", "run/secrets"} { // of the base, and mounted
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	for _, copied := range c.copies {
		to := filepath.Join(root, copied.to)
		must(t, os.MkdirAll(filepath.Dir(to), 0o755))
		output(t, exec.Command("cp", "-r", filepath.Join(files, copied.from), to))
	}
	layer := output(t, exec.Command("sh", "-c", `tar -C "$0" -c . | gzip -9 | wc -c`, root))
	var size int
	if _, err := fmt.Sscan(layer, &size); err != nil || size+baseImage > maxImage {
		t.Errorf("the image has %d bytes, compressed, of %d, %v", size+baseImage, maxImage, err)
	}
	must(t, os.WriteFile(filepath.Join(root, "run/secrets/conduit-token"), []byte("secret\n"), 0o444))
	must(t, os.Chmod(state, 0o777))

	i := &image{Containerfile: c, root: root, state: state, address: freeAddress(t)}
	for dir := root; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) { // for the user of the image
		must(t, os.Chmod(dir, 0o755))
	}
	i.check(t)
}

// image is an image that is run.
type image struct {
	Containerfile
	root, state, address string
}

// command returns what runs words in the image.
func (i *image) command(words []string) *exec.Cmd {
	cmd := exec.Command("unshare", append([]string{"--mount", "--pid", "--fork", "--kill-child", "sh", "-c", startImage, "sh", i.user}, words...)...)
	cmd.Env = []string{"ROOT=" + i.root, "STATE=" + i.state, "CONDUIT_API_HTTP_ADDRESS=0.0.0.0" + i.address, "PATH=" + os.Getenv("PATH")}
	return cmd
}

// check starts the agent, and asks for its health from inside and outside.
func (i *image) check(t *testing.T) {
	t.Helper()
	if err := i.command(i.health).Run(); err == nil {
		t.Error("healthy before it was started")
	}
	agent := i.command(append(i.entrypoint, i.cmd...))
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	must(t, err)
	defer func() { _ = log.Close() }()
	agent.Stdout, agent.Stderr = log, log
	agent.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	must(t, agent.Start())
	defer func() {
		_ = syscall.Kill(-agent.Process.Pid, syscall.SIGKILL) // the change of the user clears what --kill-child asks for
		_ = agent.Wait()
	}()
	text := func() string {
		content, _ := os.ReadFile(log.Name())
		return string(content)
	}
	wait.For(t, "the health check", func() bool { return i.command(i.health).Run() == nil }, text)
	for token, want := range map[string]int{"": http.StatusUnauthorized, "secret": http.StatusOK} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1"+i.address+"/v1/pipelines", http.NoBody)
		must(t, err)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("with token %q the answer is %s", token, response.Status)
		}
	}
	database, err := os.Stat(filepath.Join(i.state, "conduit.db"))
	must(t, err)
	if owner := database.Sys().(*syscall.Stat_t).Uid; owner != 65532 || database.Mode().Perm() != 0o600 {
		t.Errorf("the store has the owner %d and the mode %v", owner, database.Mode())
	}
}

// Containerfile is what a Containerfile says of the image and of how it runs.
type Containerfile struct {
	user                    string
	value                   map[string]string // of other instructions, whole
	copies                  []struct{ from, to string }
	entrypoint, cmd, health []string
}

func readContainerfile(t *testing.T, path string) (c Containerfile) {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	c.value = map[string]string{}
	for line := range strings.Lines(string(text)) {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch instruction {
		case "COPY":
			fields := strings.Fields(rest)
			c.copies = append(c.copies, struct{ from, to string }{fields[len(fields)-2], fields[len(fields)-1]})
		case "USER":
			c.user = rest
		case "ENTRYPOINT":
			must(t, json.Unmarshal([]byte(rest), &c.entrypoint))
		case "CMD":
			must(t, json.Unmarshal([]byte(rest), &c.cmd))
		case "HEALTHCHECK":
			_, words, _ := strings.Cut(rest, "CMD ")
			must(t, json.Unmarshal([]byte(words), &c.health))
		default:
			c.value[instruction] = rest
		}
	}
	return c
}

// imageFiles returns the directory that the image is built from. CONDUIT_IMAGE names one that is there.
func imageFiles(t *testing.T) string {
	t.Helper()
	made := os.Getenv("CONDUIT_IMAGE")
	if made == "" && os.Getenv("CI") == "" && os.Getenv("CONDUIT_PACKAGES") == "" {
		server.Missing(t, "building a static binary takes minutes; CONDUIT_PACKAGES=1 has it done")
	}
	needNspawn(t) // or what mounts takes
	if made != "" {
		return made
	}
	dir := t.TempDir()
	release(t, dir, "v0.1.0", "static")
	return filepath.Join(dir, "container")
}

// freeAddress returns a port that is free, with a colon before it.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	return ":" + port
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
