//go:build unix

package builtin_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/builtin/exec"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// spellings are values of settings that name a file to some client.
func spellings(path string) []string {
	return []string{
		path, "/." + path, "file:" + path, "file://" + path, "unix://" + path, "@" + path, path + "?mode=rw&vfs=unix",
		"file:" + path + "?mode=ro&immutable=1",
		"postgres://u@127.0.0.1:1/d?sslmode=disable&passfile=" + path, "postgres://u@127.0.0.1:1/d?sslrootcert=" + path,
		"postgres://127.0.0.1:1/d?pass%66ile=" + path,
		"host=127.0.0.1 port=1 passfile\v=" + path, "x:=1 host=127.0.0.1 port=1 sslrootcert=" + path,
		"host=127.0.0.1 port=1 sslcert=" + path + " sslkey='" + path + "'",
		"host=127.0.0.1 port=1 service=x servicefile=" + path,
		"u:p@tcp(127.0.0.1:1)/d?allowAllFiles=true&serverPubKey=" + path, "127.0.0.1:1?tls=" + path,
		"nats://127.0.0.1:1?creds=" + path, "redis://127.0.0.1:1/0?cert=" + path, "mqtt://127.0.0.1:1?ca=" + path,
		"http://127.0.0.1:1/?cert=" + path,
	}
}

// No setting of any connector leads out of the allowed paths, however it is spelled: a FIFO there, which is open for
// reading when somebody has opened it, is never opened, and nothing waits for it.
func TestNoSettingLeadsOutside(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	outside, allowed := t.TempDir(), t.TempDir()
	t.Chdir(allowed)
	fifo := filepath.Join(outside, "fifo")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.Symlink(fifo, filepath.Join(allowed, "link")),
		os.Symlink(outside, filepath.Join(allowed, "dir"))); err != nil {
		t.Fatal(err)
	}
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{ConnectorID: "p:c", Logger: sdk.Logger(t.Context()),
		AllowPath: func(path string) error {
			if real, err := filepath.EvalSymlinks(path); err == nil {
				path = real
			}
			if abs, err := filepath.Abs(path); err == nil && (abs == allowed || strings.HasPrefix(abs, allowed+"/")) {
				return nil
			}
			return errors.New(path + " is not allowed")
		}})
	var opened atomic.Bool
	go func() { // opening the FIFO for writing waits for a reader and unblocks it
		for {
			f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
			if err != nil {
				return // the test is over
			}
			opened.Store(true)
			_ = f.Close()
		}
	}()
	tried := 0
	try := func(what string, parameters sdk.Parameters, base map[string]string,
		run func(ctx context.Context, settings map[string]string)) {
		for name, p := range parameters {
			if p.Type != sdk.TypeString && p.Type != sdk.TypeFile {
				continue
			}
			values := spellings(fifo)
			if !strings.Contains(strings.ToLower(name), "url") && base[name] == "" {
				values = values[:1]
			}
			values = append(values, filepath.Join(allowed, "link"), filepath.Join(allowed, "dir", "fifo"), "link",
				"dir/fifo", "../"+filepath.Base(outside)+"/fifo")
			for _, value := range values {
				settings := maps.Clone(base)
				settings[strings.ReplaceAll(name, "*", "x")] = value
				// some wait for a server, or for the other side
				bounded, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
				run(bounded, parameters.ApplyDefaults(settings))
				cancel()
				if tried++; opened.Swap(false) {
					t.Errorf("%s: setting %s with %q opens a file outside of the allowed paths", what, name, value)
				}
			}
		}
	}
	for _, c := range builtin.With(exec.Options{}) {
		if c.Name == "exec" { // runs commands, where it may
			continue
		}
		if c.NewSource != nil {
			try(c.Name+" source", c.NewSource().Parameters(), minimal[c.Name+" source"],
				func(ctx context.Context, settings map[string]string) {
					s := c.NewSource()
					if s.Configure(ctx, settings) == nil {
						_ = s.Open(ctx, nil)
					}
					_ = s.Teardown(context.WithoutCancel(ctx))
				})
		}
		if c.NewDestination != nil {
			try(c.Name+" destination", c.NewDestination().Parameters(), minimal[c.Name+" destination"],
				func(ctx context.Context, settings map[string]string) {
					d := c.NewDestination()
					if d.Configure(ctx, settings) == nil {
						_ = d.Open(ctx)
					}
					_ = d.Teardown(context.WithoutCancel(ctx))
				})
		}
	}
	if tried < 500 {
		t.Errorf("only %d settings were tried", tried)
	}
}
