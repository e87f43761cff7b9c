package server

import (
	"context"
	"fmt"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Kafka is a running kfake: one broker of Kafka's protocol with groups and transactions, which
// keeps its data on disk.
type Kafka struct {
	*Process
	Addr string // host and port
	dir  string
}

// KafkaOptions configures a Kafka.
type KafkaOptions struct {
	Topics string   // initial topics, as name:partitions,…
	Users  []string // each MECHANISM user password; none: no authentication
	Cert   string   // PEM of a certificate and its key, for TLS with client certificates
	Config string   // of the broker, as key=value,…
}

// StartKafka builds a Kafka from a separate module, if necessary, and starts it.
func StartKafka(t testing.TB, o KafkaOptions) *Kafka {
	t.Helper()
	path := goServer(t, "kfake")
	k := &Kafka{Addr: fmt.Sprintf("127.0.0.1:%d", network.FreePort(t)), dir: Dir(t)}
	_, port, _ := strings.Cut(k.Addr, ":")
	args := []string{"-port", port, "-data", filepath.Join(k.dir, "data"), "-advertise", k.file("advertise"), "-topics",
		o.Topics, "-config", o.Config}
	if len(o.Users) > 0 {
		k.SetUsers(t, o.Users...)
		args = append(args, "-users", k.file("users"))
	}
	if o.Cert != "" {
		k.write(t, "cert", o.Cert)
		args = append(args, "-cert", k.file("cert"))
	}
	k.Process = &Process{Path: path, Args: args, Dir: k.dir, Ready: func(ctx context.Context) error {
		return accepts(ctx, k.Addr)
	}}
	k.Launch(t)
	return k
}

func (k *Kafka) file(name string) string { return filepath.Join(k.dir, name) }

func (k *Kafka) write(t testing.TB, name, content string) {
	t.Helper()
	if err := os.WriteFile(k.file(name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Advertise sets the address that the broker reports to clients: the address of a proxy.
func (k *Kafka) Advertise(t testing.TB, addr string) {
	t.Helper()
	k.write(t, "advertise", addr)
}

// SetUsers replaces the users, from the next start on.
func (k *Kafka) SetUsers(t testing.TB, users ...string) {
	t.Helper()
	k.write(t, "users", strings.Join(users, "\n"))
}

// accepts returns nil when something at addr accepts connections.
func accepts(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

var (
	building sync.Mutex
	servers  = map[string]string{} // guarded by building: paths of the servers that are up to date, by name
)

// goServer returns the path of a server of the module plugins/plugintest/servers, which the go command builds on the
// first call in a process. The test fails if the module's dependencies are missing.
func goServer(t testing.TB, name string) string {
	t.Helper()
	return goProgram(t, name, "./"+name)
}

// goProgram is like goServer, for a package that the module plugins/plugintest/servers requires as a tool.
func goProgram(t testing.TB, name, pkg string) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	if path, ok := servers[name]; ok {
		return path
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("conduit-servers-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(filepath.Join(dir, "lock")) // tests of several packages may build it at the same time
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-o", path, pkg)
	cmd.Dir = serversDir(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s cannot be built: %v\n%s", name, err, out)
	}
	servers[name] = path
	return path
}

// serversDir returns the directory of the module, which is above the working directory of a test.
func serversDir(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil && dir != filepath.Dir(dir) {
		if servers := filepath.Join(dir, "plugins", "plugintest", "servers"); isFile(filepath.Join(servers, "go.mod")) {
			return servers
		}
		dir = filepath.Dir(dir)
	}
	t.Fatalf("cannot find plugins/plugintest/servers above the working directory: %v", err)
	return ""
}
