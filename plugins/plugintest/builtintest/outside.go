//go:build unix

package builtintest

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Place is a directory outside the allowed one. It detects when a file in it is opened.
type Place struct {
	FIFO    string          // opening it for reading is detected
	Sockets string          // directory of Unix sockets; connecting to one is detected
	Allowed string          // the allowed directory and working directory; link and dir lead outside
	Context context.Context // with an sdk.Env that allows nothing else

	mu      sync.Mutex
	touched string // guarded by mu
}

// homeFiles are the files that clients look for in the home directory.
var homeFiles = []string{".aws/credentials", ".aws/config", ".pgpass", ".pg_service.conf", ".postgresql/root.crt",
	".postgresql/postgresql.crt", ".postgresql/postgresql.key", ".postgresql/root.crl", ".my.cnf", ".mylogin.cnf",
	".netrc", ".curlrc", ".mc/config.json", ".sqliterc", ".rediscli_auth", ".config/nats/context.txt", ".kube/config",
	".docker/config.json", ".ssh/id_rsa", ".ssh/config"}

// variables name files to clients.
var variables = []string{"AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "PGPASSFILE", "PGSERVICEFILE",
	"PGSSLROOTCERT",
	"PGSSLCERT", "PGSSLKEY", "PGSSLCRL", "NETRC", "KRB5_CONFIG", "KRB5_KTNAME", "SSLKEYLOGFILE", "MYSQL_HOME",
	"SQLITE_HISTORY", "MINIO_CONFIG_DIR", "REDISCLI_RCFILE"}

// NewPlace returns a place whose files are also in the home directory. With withVariables, environment variables name
// them, too.
func NewPlace(t *testing.T, withVariables bool) *Place {
	t.Helper()
	out, home := t.TempDir(), t.TempDir()
	short, err := os.MkdirTemp("", "o") // the length of socket paths is limited
	p := &Place{FIFO: filepath.Join(out, "fifo"), Sockets: short, Allowed: t.TempDir()}
	t.Chdir(p.Allowed)
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	err = errors.Join(err, syscall.Mkfifo(p.FIFO, 0o600), os.Symlink(p.FIFO, filepath.Join(p.Allowed, "link")),
		os.Symlink(out, filepath.Join(p.Allowed, "dir")), os.Symlink(short, filepath.Join(p.Allowed, "sockets")))
	for _, name := range homeFiles {
		path := filepath.Join(home, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(p.FIFO, path))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	for _, name := range variables {
		if withVariables {
			t.Setenv(name, p.FIFO)
		}
	}
	for _, name := range []string{"socket", ".s.PGSQL.5432", ".s.PGSQL.1"} {
		p.listen(t, filepath.Join(short, name))
	}
	go p.watch()
	p.Context = sdk.WithEnv(t.Context(),
		&sdk.Env{ConnectorID: "p:c", Logger: sdk.Logger(t.Context()), AllowPath: p.allow})
	return p
}

func (p *Place) allow(path string) error {
	if real := resolve(path); real != p.Allowed && !strings.HasPrefix(real, p.Allowed+"/") {
		return errors.New(path + " is not allowed")
	}
	return nil
}

// resolve returns the absolute path that path leads to. Its last elements need not exist.
func resolve(path string) string {
	if !filepath.IsAbs(path) {
		dir, _ := os.Getwd()
		path = dir + "/" + path // not cleaned: dir/.. need not be the parent of the link dir
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	dir, name := filepath.Split(strings.TrimRight(path, "/"))
	return filepath.Join(resolve(dir), name)
}

func (p *Place) listen(t *testing.T, path string) {
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.note("connects to " + filepath.Base(path))
			_ = conn.Close()
		}
	}()
}

// watch repeatedly opens the FIFO for writing, which blocks until it has a reader and unblocks the reader, until the
// test is over.
func (p *Place) watch() {
	for {
		f, err := os.OpenFile(p.FIFO, os.O_WRONLY, 0)
		if err != nil {
			return
		}
		p.note("opens a file")
		_ = f.Close()
	}
}

func (p *Place) note(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.touched = what
}

// Touched describes the last access outside the allowed paths since the previous call, "" for none.
func (p *Place) Touched() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	what := p.touched
	p.touched = ""
	return what
}

// Spellings are values of settings that name a file or a socket to some client. The bare names come first.
func (p *Place) Spellings() (names, addresses []string) {
	out := filepath.Dir(p.FIFO)
	names = []string{p.FIFO, filepath.Join(p.Allowed, "link"), filepath.Join(p.Allowed, "dir", "fifo"), "link",
		"dir/fifo",
		"../" + filepath.Base(out) + "/fifo", "dir/../dir/fifo", "dir/../002/dir/fifo", "dir/../003/dir/fifo",
		"/proc/self/cwd/link", "/proc/self/root" + p.FIFO,
		"/proc/thread-self/cwd/dir/fifo", "/." + p.FIFO, "//" + p.FIFO}
	for _, path := range []string{p.FIFO, "link"} {
		addresses = append(addresses, "file:"+path, "file://"+path, "file://localhost"+path, "unix://"+path, "@"+path,
			path+"?mode=rw&vfs=unix", "file:"+path+"?mode=ro&immutable=1",
			"postgres://u@127.0.0.1:1/d?sslmode=disable&passfile="+path, "postgres://u@127.0.0.1:1/d?sslrootcert="+path,
			"postgres://127.0.0.1:1/d?pass%66ile="+path,
			"host=127.0.0.1 port=1 passfile\v="+path, "x:=1 host=127.0.0.1 port=1 sslrootcert="+path,
			"host=127.0.0.1 port=1 sslcert="+path+" sslkey='"+path+"'",
			"host=127.0.0.1 port=1 service=x servicefile="+path,
			"u:p@tcp(127.0.0.1:1)/d?allowAllFiles=true&serverPubKey="+path, "127.0.0.1:1?tls="+path,
			"nats://127.0.0.1:1?creds="+path, "redis://127.0.0.1:1/0?cert="+path, "mqtt://127.0.0.1:1?ca="+path,
			"http://127.0.0.1:1/?cert="+path)
	}
	for _, dir := range []string{p.Sockets, filepath.Join(p.Allowed, "sockets"), p.Allowed + "/../" + p.Sockets,
		"/proc/self/cwd/sockets"} {
		escaped := strings.ReplaceAll(dir, "/", "%2F")
		addresses = append(addresses, "host="+dir+" user=u sslmode=disable", "host="+dir+" port=1",
			"host='"+dir+"' user=u",
			"host=127.0.0.1,"+dir+" port=1,1", "hostaddr="+dir, "postgres://u@"+escaped+"/d",
			"postgres:///d?host="+dir, "postgres://u@127.0.0.1:1,"+escaped+":1/d", "postgres:///d?host="+escaped+
				"&port=1")
		socket := dir + "/socket"
		for _, scheme := range []string{"unix", "redis+unix", "redis", "rediss", "redis+socket", "nats", "tls", "mqtt",
			"mqtts",
			"ws", "http", "https", "http+unix", "file", "tcp", "postgres"} {
			addresses = append(addresses, scheme+"://"+socket, scheme+"://"+escaped+"%2Fsocket", scheme+":"+socket)
		}
		addresses = append(addresses, socket, "unix("+socket+")", "u@unix("+socket+")/d", "@"+socket, "["+socket+"]:1",
			"127.0.0.1:1,"+socket)
	}
	return names, addresses
}
