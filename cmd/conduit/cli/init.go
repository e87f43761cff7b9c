package cli

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
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
)

func initCommand(p *Program) *ffcli.Command {
	flags := NewFlags("init")
	dir := flags.String("path", ".", "`DIR` to set up")
	force := flags.Bool("force", false, "overwrite an existing conduit.yaml")
	token := flags.String("token-file", "", "only create `FILE` with a token for api.auth.admin-token-file")
	return &ffcli.Command{
		Name:       "init",
		ShortUsage: "conduit init [flags]",
		ShortHelp:  "Create the directories and conduit.yaml.",
		LongHelp: `Creates the directories processors, connectors and pipelines, conduit.yaml with an explanation of
every setting, and its JSON Schema, which lets editors complete and check it. Existing files are kept.

Examples:
  conduit init --path /srv/conduit
  conduit init --token-file /etc/conduit/admin-token`,
		FlagSet: flags,
		Exec: func(_ context.Context, args []string) error {
			if _, err := Positional(flags, args, 0); err != nil {
				return err
			}
			if *token != "" {
				return initToken(*token)
			}
			return initialize(p, *dir, *force)
		},
	}
}

func initialize(p *Program, dir string, force bool) error {
	for _, name := range []string{"processors", "connectors", "pipelines"} {
		if err := makeDir(p, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	path := filepath.Join(dir, config.DefaultPath)
	err := WriteNew(path, config.Template(), force)
	if errors.Is(err, fs.ErrExist) {
		fmt.Fprintf(p.Stdout, "kept     %s (--force overwrites it)\n", terminal.Line(path))
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "created  %s\n", terminal.Line(path))
	return WriteNew(filepath.Join(dir, config.SchemaFile), config.Schema(), true)
}

// initToken creates a file with a token that only its owner can read, unless the file exists. The file gets its name
// when it is complete, so that a full disk leaves no empty token behind.
func initToken(path string) error {
	if info, err := os.Stat(path); err == nil {
		if !info.Mode().IsRegular() || info.Size() == 0 {
			return fmt.Errorf("cannot use %s as a token file: it is empty or not a regular file; remove it", path)
		}
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".token-")
	if err != nil {
		return fmt.Errorf("cannot create a token: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = fmt.Fprintln(f, rand.Text())
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Link(f.Name(), path)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) { // another command was faster
		return fmt.Errorf("cannot create a token: %w", err)
	}
	return nil
}

func makeDir(p *Program, path string) error {
	word := "created"
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		word = "kept   "
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("cannot create directory: %w", err)
	}
	fmt.Fprintf(p.Stdout, "%s  %s%c\n", word, terminal.Line(path), filepath.Separator)
	return nil
}
