package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent/config"
)

func initCommand(p *program) *ffcli.Command {
	flags := newFlags("init")
	dir := flags.String("path", ".", "`DIR` to set up")
	force := flags.Bool("force", false, "write conduit.yaml anew when it exists")
	token := flags.String("token-file", "", "make `FILE` with a token for api.auth.admin-token-file, and nothing else")
	return &ffcli.Command{
		Name:       "init",
		ShortUsage: "conduit init [flags]",
		ShortHelp:  "Make the directories and conduit.yaml.",
		LongHelp: `Makes the directories processors, connectors and pipelines, and conduit.yaml with every
setting explained. What exists is kept.

Examples:
  conduit init --path /srv/conduit
  conduit init --token-file /etc/conduit/admin-token`,
		FlagSet: flags,
		Exec: func(_ context.Context, args []string) error {
			if _, err := positional(flags, args, 0); err != nil {
				return err
			}
			if *token != "" {
				return initToken(*token)
			}
			return p.init(*dir, *force)
		},
	}
}

func (p *program) init(dir string, force bool) error {
	for _, name := range []string{"processors", "connectors", "pipelines"} {
		if err := p.makeDir(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	path := filepath.Join(dir, config.DefaultPath)
	err := writeNew(path, config.Template(), force)
	if errors.Is(err, fs.ErrExist) {
		fmt.Fprintf(p.stdout, "kept     %s (--force writes it anew)\n", path)
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "created  %s\n", path)
	return nil
}

// initToken makes a file with a token that nobody else can read, unless there is one. It gets
// its name when it is complete, so that a full disk leaves no empty token behind.
func initToken(path string) error {
	if info, err := os.Stat(path); err == nil {
		if !info.Mode().IsRegular() || info.Size() == 0 {
			return fmt.Errorf("cannot use %s for a token: it is empty or no regular file; remove it", path)
		}
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".token-")
	if err != nil {
		return fmt.Errorf("cannot make a token: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = fmt.Fprintln(f, rand.Text())
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Link(f.Name(), path)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) { // another command was faster
		return fmt.Errorf("cannot make a token: %w", err)
	}
	return nil
}

func (p *program) makeDir(path string) error {
	word := "created"
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		word = "kept   "
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("cannot make directory: %w", err)
	}
	fmt.Fprintf(p.stdout, "%s  %s%c\n", word, path, filepath.Separator)
	return nil
}

// writeNew writes a file. It returns fs.ErrExist when there is one, unless force is set.
func writeNew(path string, content []byte, force bool) error {
	mode := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		mode = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(path, mode, 0o644)
	if err != nil {
		return fmt.Errorf("cannot write file: %w", err)
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("cannot write file: %w", err)
	}
	return nil
}
