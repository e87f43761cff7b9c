// Package docs makes the site of the documentation of this version: of the pages of the repository,
// and of the commands, settings, schemas and plugins themselves. The agent serves it below /docs/,
// and 'conduit docs' writes it. Nothing in it is requested from elsewhere.
package docs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/cmd/conduit/cli"
)

// Site is the content of each file of the site, by name.
type Site map[string][]byte

// Of returns a function that makes the site of the commands below root, once, when it is called first.
func Of(root *ffcli.Command, version string) func() (Site, error) {
	return sync.OnceValues(func() (Site, error) { return build(root, version) })
}

// Command returns 'conduit docs', which writes the site.
func Command(p *cli.Program, site func() (Site, error)) *ffcli.Command {
	flags := cli.NewFlags("docs")
	return &ffcli.Command{
		Name: "docs", ShortUsage: "conduit docs DIR", ShortHelp: "Write the documentation of this version as a static site.",
		LongHelp: `The agent serves the same below /docs/. Open index.html of the directory in a browser, or put the
directory on a web server. llms.txt lists all pages for machines, which are there as Markdown, too.

Example:
  conduit docs site`,
		FlagSet: flags,
		Exec: func(_ context.Context, args []string) error {
			dir, err := cli.Argument(flags, args, "where to? conduit docs DIR")
			if err != nil {
				return err
			}
			files, err := site()
			if err != nil {
				return err
			}
			if err := write(dir, files); err != nil {
				return fmt.Errorf("cannot write the documentation: %w", err)
			}
			_, err = fmt.Fprintf(p.Stdout, "wrote %d files, begin with %s\n", len(files), filepath.Join(dir, "index.html"))
			return err
		},
	}
}

func write(dir string, files Site) error {
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
