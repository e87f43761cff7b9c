package e2e_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/parts"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
)

// through returns a client that connects through a Unix socket.
func through(path string) *client.Client {
	return &client.Client{URL: "http://localhost", HTTP: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}}}}
}

// shortDir returns a directory with a path short enough for the name of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "sock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestSocket sends requests through the socket without a token, and over TCP, where a token is required.
func TestSocket(t *testing.T) {
	t.Parallel()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	group, err := user.LookupGroupId(me.Gid)
	if err != nil {
		group = &user.Group{} // it has no name: the socket keeps its group
	}
	dir, path := agenttest.NewDir(t), filepath.Join(shortDir(t), "api.sock")
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false) // like the socket of a killed agent
	stale.Close()
	a := agenttest.Start(t, dir, func(c *config.Config) {
		c.API.Auth.AdminTokenFile = token
		c.API.HTTP.Socket, c.API.HTTP.SocketMode, c.API.HTTP.SocketGroup = path, "0660", group.Name
	})
	info, err := os.Stat(path)
	if err != nil || info.Mode() != os.ModeSocket|0o660 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
	c := through(path)
	if _, _, err := c.CreatePipeline(t.Context(), "p", rest.PipelineConfig{Name: "p"}); err != nil {
		t.Errorf("through the socket: %v", err)
	}
	remote := &client.Client{URL: "http://" + a.Address()}
	if _, err := remote.Pipelines(t.Context()); client.Reason(err) != rest.ReasonUnauthenticated {
		t.Errorf("over TCP without the token: %v", err)
	}
	trail := fmt.Sprintf(`"uid":%s,"gid":%s,"pid":%d`, me.Uid, me.Gid, os.Getpid())
	a.Wait("the trail", func() bool {
		for line := range strings.Lines(a.Log()) {
			if strings.Contains(line, `"level":"INFO"`) && strings.Contains(line, trail) &&
				strings.Contains(line, "/v1/pipelines") {
				return true
			}
		}
		return false
	})
	a.Stop()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is there after the end: %v", err)
	}
}

// TestSocketsThatAreRefused has socket settings that cannot be served.
func TestSocketsThatAreRefused(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	served, err := net.Listen("unix", filepath.Join(dir, "served"))
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("keep"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, mode, group, want string }{
		{"served", "0600", "", "another process serves"},
		{"file", "0600", "", "is not a socket"},
		{"none/there", "0600", "", "cannot listen on api.http.socket"},
		{"open", "0666", "", "lets every user"},
		{"odd", "rw", "", "is not a mode"},
		{"group", "0660", "no-such-group-here", "api.http.socket-group"},
		{strings.Repeat("x", 100), "0600", "", "longer than"},
	} {
		c, _, err := config.Load(config.Sources{Path: os.DevNull})
		if err != nil {
			t.Fatal(err)
		}
		root := agenttest.NewDir(t)
		c.DB.SQLite.Path, c.Pipelines.Path, c.Connectors.Path = filepath.Join(root, "conduit.db"),
			filepath.Join(root, "pipelines"), filepath.Join(root, "connectors")
		c.API.HTTP = config.HTTP{Address: "127.0.0.1:0", Socket: filepath.Join(dir, test.name), SocketMode: test.mode,
			SocketGroup: test.group}
		err = agent.Run(t.Context(), agent.Options{Config: c, Plugins: parts.Plugins(),
			References: reference.Kinds(), Cluster: parts.Cluster(),
			Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Started: func(*agent.Agent) { t.Error("started") }})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "file")); string(b) != "keep" || err != nil {
		t.Errorf("the file that is no socket: %q, %v", b, err)
	}
}

// TestPortWithoutHost listens on this machine only, unless authentication is configured.
func TestPortWithoutHost(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, "", func(c *config.Config) { c.API.HTTP.Address = ":0" })
	if host, _, err := net.SplitHostPort(a.Address()); host != "127.0.0.1" || err != nil {
		t.Errorf("listens on %s, error %v", a.Address(), err)
	}
	if n := strings.Count(a.Log(), `"level":"WARN"`); n != 1 ||
		!strings.Contains(a.Log(), "listens on this machine only") {
		t.Errorf("%d warnings, want one:\n%s", n, a.Log())
	}
	dir := agenttest.NewDir(t)
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := agenttest.Start(t, dir, func(c *config.Config) { c.API.HTTP.Address, c.API.Auth.AdminTokenFile = ":0", token })
	if host, _, err := net.SplitHostPort(b.Address()); host != "::" && host != "0.0.0.0" || err != nil {
		t.Errorf("with a token: listens on %s, error %v", b.Address(), err)
	}
}

// TestFilesOfTheAPIAreBounded names endless files where small files are expected.
func TestFilesOfTheAPIAreBounded(t *testing.T) {
	t.Parallel()
	for what, set := range map[string]func(*config.API){
		"token":       func(c *config.API) { c.Auth.AdminTokenFile = "/dev/zero" },
		"certificate": func(c *config.API) { c.TLS.CertFile, c.TLS.KeyFile = "/dev/zero", "/dev/zero" },
	} {
		c, _, err := config.Load(config.Sources{Path: os.DevNull})
		if err != nil {
			t.Fatal(err)
		}
		root := agenttest.NewDir(t)
		c.DB.SQLite.Path, c.Pipelines.Path, c.Connectors.Path = filepath.Join(root, "conduit.db"),
			filepath.Join(root, "pipelines"), filepath.Join(root, "connectors")
		c.API.HTTP.Address = "127.0.0.1:0"
		set(&c.API)
		err = agent.Run(t.Context(), agent.Options{Config: c, Plugins: parts.Plugins(),
			References: reference.Kinds(), Cluster: parts.Cluster(),
			Log: slog.New(slog.DiscardHandler), Started: func(*agent.Agent) { t.Error("started") }})
		if err == nil || !strings.Contains(err.Error(), "regular file") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestOriginsThatAreRefused has settings that no browser can send as an origin.
func TestOriginsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"*", "ui.example", "https://ui.example/", "https://"} {
		c, _, err := config.Load(config.Sources{Path: os.DevNull})
		if err != nil {
			t.Fatal(err)
		}
		root := agenttest.NewDir(t)
		c.DB.SQLite.Path, c.Pipelines.Path, c.Connectors.Path = filepath.Join(root, "conduit.db"),
			filepath.Join(root, "pipelines"), filepath.Join(root, "connectors")
		c.API.HTTP.Address, c.API.HTTP.CORS.AllowedOrigins = "127.0.0.1:0", setting
		err = agent.Run(t.Context(), agent.Options{Config: c, Plugins: parts.Plugins(),
			References: reference.Kinds(), Cluster: parts.Cluster(),
			Log: slog.New(slog.DiscardHandler), Started: func(*agent.Agent) { t.Error("started") }})
		if err == nil || !strings.Contains(err.Error(), "is not an origin") {
			t.Errorf("%s: %v", setting, err)
		}
	}
	a := agenttest.Start(t, "", func(c *config.Config) {
		c.API.HTTP.CORS.AllowedOrigins = `["https://ui.example", http://localhost:3000]`
	})
	for origin, status := range map[string]int{"https://ui.example": 200, "http://localhost:3000": 200,
		"http://localhost:3001": 403} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.Address()+"/v1/pipelines", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", origin)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != status {
			t.Errorf("%s: %d, want %d", origin, response.StatusCode, status)
		}
	}
}
