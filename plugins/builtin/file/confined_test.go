package file_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/file"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

// confinedTo allows the files whose directory, with links resolved at the time of the check, is dir.
func confinedTo(t *testing.T, dir string) context.Context {
	return sdk.WithEnv(t.Context(), &sdk.Env{Logger: slog.New(slog.DiscardHandler), AllowPath: func(path string) error {
		if real, err := filepath.EvalSymlinks(filepath.Dir(path)); err != nil || real != dir {
			return errors.New("not allowed")
		}
		if target, err := os.Readlink(path); err == nil && filepath.Dir(target) != dir {
			return errors.New("not allowed")
		}
		return nil
	}})
}

// A link that replaces a file after the check of the settings leads nowhere.
func TestLinksAfterTheCheck(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	allowed, secret := filepath.Join(root, "allowed"), filepath.Join(root, "secret")
	path := filepath.Join(allowed, "file")
	for _, err := range []error{os.Mkdir(allowed, 0o755), os.WriteFile(secret, []byte("secret\n"), 0o600),
		os.WriteFile(path, []byte("mine\n"), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := confinedTo(t, allowed)
	swap := func() {
		if err := errors.Join(os.Remove(path), os.Symlink(secret, path)); err != nil {
			t.Fatal(err)
		}
	}
	s, d := file.Connector(zstd.Codec{}).NewSource(), file.Connector(zstd.Codec{}).NewDestination()
	running := file.Connector(zstd.Codec{}).NewDestination()
	for _, c := range []interface {
		Configure(context.Context, map[string]string) error
	}{s, d, running} {
		if err := c.Configure(ctx, map[string]string{"path": path}); err != nil {
			t.Fatal(err)
		}
	}
	if err := running.Open(ctx); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = running.Teardown(ctx) }()
	swap()
	if err := s.Open(ctx, nil); err == nil || !strings.Contains(err.Error(), "not allowed") {
		t.Errorf("the source opens it: %v", err)
	}
	if err := d.Open(ctx); err == nil || !strings.Contains(err.Error(), "not allowed") {
		t.Errorf("the destination opens it: %v", err)
	}
	// A running destination reopens a path that leads to another file. Here the new file is refused.
	wait.For(t, "it refuses to follow the link", func() bool {
		_, err := running.Write(ctx, []record.Record{{Position: record.Position("1"), After: record.Raw([]byte("x"))}})
		return err != nil
	})
	if content, err := os.ReadFile(secret); err != nil || string(content) != "secret\n" {
		t.Errorf("the other file has %q, %v", content, err)
	}
}

// A link that replaces the directory, or the file, creates nothing elsewhere.
func TestNothingIsCreatedElsewhere(t *testing.T) {
	for _, swapped := range []string{"directory", "file"} {
		allowed, other := t.TempDir(), t.TempDir()
		dir := filepath.Join(allowed, "dir")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		ctx := confinedTo(t, dir)
		d := file.Connector(zstd.Codec{}).NewDestination()
		if err := d.Configure(ctx, map[string]string{"path": filepath.Join(dir, "out")}); err != nil {
			t.Fatal(err)
		}
		var err error
		if swapped == "directory" {
			err = errors.Join(os.Remove(dir), os.Symlink(other, dir))
		} else {
			err = os.Symlink(filepath.Join(other, "out"), filepath.Join(dir, "out"))
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Open(ctx); err == nil || !strings.Contains(err.Error(), "not allowed") {
			t.Errorf("%s: the destination opens: %v", swapped, err)
		}
		if entries, err := os.ReadDir(other); err != nil || len(entries) > 0 {
			t.Errorf("%s: there is %v, %v", swapped, entries, err)
		}
	}
}
