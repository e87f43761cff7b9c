package packages

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

const (
	maxImage  = 34_000_000 // bytes, compressed; a binary of 80 MB, the limit of .ci/check, takes about as much
	baseImage = 2_000_000  // bytes of the base image, a part of maxImage
)

// startImage runs a command in the root directory of an image, which is read-only except for its mounts, as the user of
// the image and without capabilities.
const startImage = `set -e
mount --bind "$ROOT" "$ROOT"
mount -o remount,bind,ro "$ROOT"
mount -t tmpfs tmpfs "$ROOT/tmp"
mount --bind "$STATE" "$ROOT/var/lib/conduit"
mount -t proc proc "$ROOT/proc"
user=$1; shift
exec setpriv --no-new-privs --bounding-set=-all,+sys_chroot,+setuid,+setgid \
    chroot --userspec="$user" --groups= "$ROOT" "$@"`

// standIn replaces the base image, which tests do not fetch. It has the parts of the base that the image uses, under
// the same name.
const standIn = `FROM scratch
COPY base /
USER 65532:65532`

// TestContainer builds the image from its Containerfile with buildah, runs its command in its root directory, and runs
// its health check.
func TestContainer(t *testing.T) {
	needNspawn(t) // mounting has the same requirements
	b, files := newBuilder(t), filepath.Join(crossBuilds(t), "container")
	base := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(base, "base/tmp"), 0o755))
	put(t, filepath.Join(base, "base/etc/passwd"),
		[]byte("nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"), 0o644)
	put(t, filepath.Join(base, "Containerfile"), []byte(standIn), 0o644)
	b.run("bud", "--isolation=chroot", "--tag="+baseName(t, files), base)
	b.run("bud", "--isolation=chroot", "--format=docker", "--pull=never", "--tag="+imageName, files)

	c := b.settings()
	for what, is := range map[string][2]string{
		"user":        {c.User, "65532:65532"},
		"entry point": {strings.Join(c.Entrypoint, " "), "/usr/bin/conduit"},
		"directory":   {c.WorkingDir, "/var/lib/conduit"},
		"stop signal": {c.StopSignal, "SIGTERM"},
	} {
		if is[0] != is[1] {
			t.Fatalf("the %s is %q, want %q", what, is[0], is[1])
		}
	}
	if c.Volumes["/var/lib/conduit"] == nil || c.ExposedPorts["8080/tcp"] == nil {
		t.Errorf("the volumes are %v, the ports %v", c.Volumes, c.ExposedPorts)
	}
	// The image has no shell.
	if len(c.Healthcheck.Test) < 2 || c.Healthcheck.Test[0] != "CMD" || c.Healthcheck.Interval == 0 {
		t.Fatalf("the health check is %+v", c.Healthcheck)
	}
	if size := b.size(); size+baseImage > maxImage {
		t.Errorf("the image has %d bytes, compressed, of %d", size+baseImage, maxImage)
	}

	i := &image{imageSettings: c, root: b.root(), state: filepath.Join(t.TempDir(), "state"), address: freeAddress(t)}
	output(t, exec.Command("cp", "-a", filepath.Join(i.root, "var/lib/conduit"), i.state)) // as in a new volume
	for _, dir := range []string{"proc", "etc/conduit/pipelines", "run/secrets"} {         // mount points
		must(t, os.MkdirAll(filepath.Join(i.root, dir), 0o755))
	}
	put(t, filepath.Join(i.root, "run/secrets/conduit-token"), []byte("secret\n"), 0o444)
	for _, dir := range []string{i.root, i.state} { // owned by the user of the image
		for dir = filepath.Dir(dir); dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
			must(t, os.Chmod(dir, 0o755))
		}
	}
	i.check(t)
}

const imageName = "localhost/conduit:test"

// builder is a buildah with a separate image store, which keeps a copy of the files of each image and so works on any
// file system.
type builder struct {
	t   *testing.T
	dir string
}

func newBuilder(t *testing.T) *builder {
	t.Helper()
	server.Need(t, "buildah", "buildah")
	return &builder{t, t.TempDir()}
}

// run runs a command of buildah, which must succeed, and returns its output.
func (b *builder) run(args ...string) string {
	b.t.Helper()
	cmd := exec.Command("buildah", append([]string{"--storage-driver=vfs", "--root=" + b.dir + "/images",
		"--runroot=" + b.dir + "/run"}, args...)...)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("%v: %v\n%s%s", cmd.Args, err, out, &complaints)
	}
	return strings.TrimSpace(string(out))
}

// imageSettings are the runtime settings in an image.
type imageSettings struct {
	User, WorkingDir, StopSignal string
	Entrypoint, Cmd              []string
	Volumes, ExposedPorts        map[string]any
	Healthcheck                  struct {
		Test     []string
		Interval time.Duration
	}
}

// settings returns the settings of the image.
func (b *builder) settings() imageSettings {
	b.t.Helper()
	var inspected struct {
		Docker struct {
			Config imageSettings
		}
	}
	must(b.t, json.Unmarshal([]byte(b.run("inspect", "--type=image", imageName)), &inspected))
	return inspected.Docker.Config
}

// size returns the number of bytes to push for the layer above the base.
func (b *builder) size() (bytes int) {
	b.t.Helper()
	pushed := filepath.Join(b.dir, "pushed")
	b.run("push", "--disable-compression=false", imageName, "dir:"+pushed)
	content, err := os.ReadFile(filepath.Join(pushed, "manifest.json"))
	must(b.t, err)
	var manifest struct {
		Layers []struct {
			Size int
		}
	}
	must(b.t, json.Unmarshal(content, &manifest))
	if len(manifest.Layers) < 2 {
		b.t.Fatalf("there are the layers %v", manifest.Layers)
	}
	for _, layer := range manifest.Layers[1:] {
		bytes += layer.Size
	}
	return bytes
}

// root returns the root directory of a container of the image.
func (b *builder) root() string {
	b.t.Helper()
	return b.run("mount", b.run("from", "--pull=never", imageName))
}

// baseName returns the base image of a Containerfile.
func baseName(t *testing.T, files string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(files, "Containerfile"))
	must(t, err)
	_, from, _ := strings.Cut(string(text), "\nFROM ")
	name, _, _ := strings.Cut(from, "\n")
	return name
}

// image is a running image.
type image struct {
	imageSettings
	root, state, address string
}

// command returns a command that runs words in the image.
func (i *image) command(words []string) *exec.Cmd {
	cmd := exec.Command("unshare", append([]string{"--mount", "--pid", "--fork", "--kill-child", "sh", "-c", startImage,
		"sh", i.User}, words...)...)
	cmd.Env = []string{"ROOT=" + i.root, "STATE=" + i.state, "CONDUIT_API_HTTP_ADDRESS=0.0.0.0" + i.address,
		"PATH=" + os.Getenv("PATH")}
	return cmd
}

// check starts the agent, and queries its health from inside and outside.
func (i *image) check(t *testing.T) {
	t.Helper()
	if err := i.command(i.Healthcheck.Test[1:]).Run(); err == nil {
		t.Error("healthy before it was started")
	}
	agent := i.command(append(i.Entrypoint, i.Cmd...))
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	must(t, err)
	defer func() { _ = log.Close() }()
	agent.Stdout, agent.Stderr = log, log
	agent.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	must(t, agent.Start())
	defer func() {
		_ = syscall.Kill(-agent.Process.Pid, syscall.SIGKILL) // changing the user undoes --kill-child
		_ = agent.Wait()
	}()
	text := func() string {
		content, _ := os.ReadFile(log.Name())
		return string(content)
	}
	wait.For(t, "the health check", func() bool { return i.command(i.Healthcheck.Test[1:]).Run() == nil }, text)
	for token, want := range map[string]int{"": http.StatusUnauthorized, "secret": http.StatusOK} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://127.0.0.1"+i.address+"/v1/pipelines", http.NoBody)
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

// freeAddress returns a free port, with a colon before it.
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
