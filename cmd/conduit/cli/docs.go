package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/peterbourgon/ff/v3/ffcli"
)

// docsCommand returns 'conduit docs', which writes the site.
func docsCommand(p *Program, site func() (map[string][]byte, error)) *ffcli.Command {
	flags := NewFlags("docs")
	return &ffcli.Command{
		Name: "docs", ShortUsage: "conduit docs DIR",
		ShortHelp: "Write the documentation of this version as a static site.",
		LongHelp: `The agent serves the same site at /docs/. Open index.html in a browser, or copy the
directory to a web server. llms.txt lists all pages for machines; each page is also available as Markdown.

Example:
  conduit docs site`,
		FlagSet: flags,
		Exec: func(_ context.Context, args []string) error {
			dir, err := Argument(flags, args, "no directory given; usage: conduit docs DIR")
			if err != nil {
				return err
			}
			files, err := site()
			if err != nil {
				return err
			}
			if err := writeSite(dir, files); err != nil {
				return fmt.Errorf("cannot write the documentation: %w", err)
			}
			_, err = fmt.Fprintf(p.Stdout, "wrote %d files; start with %s\n", len(files),
				filepath.Join(dir, "index.html"))
			return err
		},
	}
}

func writeSite(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
