package tools

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/api/docsearch"
	"github.com/conduit-agent/conduit/cmd/conduit/cli"
	"github.com/conduit-agent/conduit/spec/texts"
)

// siteFiles returns the files of the documentation by name.
type siteFiles func() (map[string][]byte, error)

// Docs returns 'conduit docs', which writes the site, searches it and prints its pages.
func Docs(p *cli.Program, site func() (map[string][]byte, error)) *ffcli.Command {
	flags := cli.NewFlags("docs")
	c := &ffcli.Command{
		Name: "docs", ShortUsage: "conduit docs DIR|search|read",
		ShortHelp: "Search the documentation of this version, or write it as a static site.",
		LongHelp: `'docs search' finds pages, sections and settings, and 'docs read' prints a page. Neither needs an
agent or a network. 'docs DIR' writes the site that an agent serves at /docs/: open index.html in
a browser, or copy the directory to a web server. llms.txt lists all pages for machines; each page
is also available as Markdown.

Examples:
  conduit docs search rate limit
  conduit docs read weblogs
  conduit docs site`,
		FlagSet:     flags,
		Subcommands: []*ffcli.Command{docsSearchCommand(p, site), docsReadCommand(p, site)},
	}
	c.Exec = func(_ context.Context, args []string) error {
		if len(args) == 0 {
			_, err := fmt.Fprint(p.Stdout, cli.Usage(c))
			return err
		}
		dir, err := cli.Argument(flags, args, "no directory given; usage: conduit docs DIR, or conduit docs search WORD...")
		if err != nil {
			return err
		}
		files, err := site()
		if err != nil {
			return err
		}
		if _, page := files[dir+".md"]; page || slices.Contains([]string{"list", "ls", "pages"}, dir) {
			return cli.Invalidf("'conduit docs read' lists the pages, and 'conduit docs read PAGE' prints one; to write "+
				"the site to a directory of this name: conduit docs ./%s", dir)
		}
		if err := writeSite(dir, files); err != nil {
			return fmt.Errorf("cannot write the documentation: %w", err)
		}
		_, err = fmt.Fprintf(p.Stdout, "wrote %d files; start with %s\n", len(files),
			filepath.Join(dir, "index.html"))
		return err
	}
	return c
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

func docsSearchCommand(p *cli.Program, site siteFiles) *ffcli.Command {
	flags := cli.NewFlags("search")
	count := flags.Int("n", 8, "maximum number of pages")
	return &ffcli.Command{
		Name: "search", ShortUsage: "conduit docs search WORD... [flags]",
		ShortHelp: "Search the documentation.",
		LongHelp: `It prints the pages in which every word occurs, the best first: the name of the page, the section
and the setting that fit best, and the text there.

Examples:
  conduit docs search rate limit
  conduit docs search db.sqlite.path -n 1`,
		FlagSet: flags,
		Exec: func(_ context.Context, args []string) error {
			words, err := cli.Positional(flags, args, len(args))
			if err != nil {
				return err
			}
			query := strings.Join(words, " ")
			if !docsearch.HasWords(query) {
				return cli.Invalidf("no words to search for; usage: conduit docs search WORD...")
			}
			if *count < 1 {
				return cli.Invalidf("-n must be at least 1")
			}
			files, err := site()
			if err != nil {
				return err
			}
			pages, err := docsearch.Pages(files[docsearch.Index])
			if err != nil {
				return err
			}
			hits := docsearch.Find(pages, query)
			if len(hits) == 0 {
				return fmt.Errorf("no page has the words %q: use fewer or other words", query)
			}
			return printHits(p, hits, query, *count)
		},
	}
}

func printHits(p *cli.Program, hits []docsearch.Hit, query string, most int) error {
	var b strings.Builder
	for i := range hits[:min(most, len(hits))] {
		h := &hits[i]
		place := h.Page.Title
		for _, part := range []string{h.Section.Title, h.Name} {
			if part != "" {
				place += " > " + part
			}
		}
		fmt.Fprintf(&b, "%s  %s\n    %s\n", h.Page.Name, place, h.Excerpt(query))
	}
	if more := len(hits) - most; more > 0 {
		fmt.Fprintf(&b, "%d more: use more words, or a larger -n\n", more)
	}
	_, err := fmt.Fprint(p.Stdout, b.String())
	return err
}

func docsReadCommand(p *cli.Program, site siteFiles) *ffcli.Command {
	flags := cli.NewFlags("read")
	return &ffcli.Command{
		Name: "read", ShortUsage: "conduit docs read [PAGE [SECTION]]",
		ShortHelp: "Print a page of the documentation as Markdown.",
		LongHelp: `Without a page it prints the list of pages. A section is printed with the sections in it. A link in
a page, such as reload.md#who-owns-a-pipeline, is accepted too, and so is what 'conduit docs search'
prints behind the page: a section and a setting in it.

Examples:
  conduit docs read weblogs
  conduit docs read concepts "Windows and backpressure" | less`,
		FlagSet: flags,
		Exec: func(_ context.Context, args []string) error {
			words, err := cli.Positional(flags, args, 2)
			if err != nil {
				return err
			}
			files, err := site()
			if err != nil {
				return err
			}
			text := files["llms.txt"]
			if len(words) > 0 {
				name, anchor, _ := strings.Cut(words[0], "#") // a link of another page
				name = strings.TrimSuffix(strings.TrimSuffix(name, ".md"), ".html")
				var ok bool
				if text, ok = files[name+".md"]; !ok {
					return cli.Invalidf("there is no page %q%s", name, otherPages(files, name))
				}
				if words[0] = name; anchor != "" && len(words) == 1 {
					words = append(words, anchor)
				}
			}
			if len(words) > 1 {
				section, headings := docsearch.SectionOf(string(text), words[1])
				if section == "" {
					section = foundSection(files, words[0], words[1])
				}
				if section == "" {
					return cli.Invalidf("page %q has no section %q; its sections: %s", words[0], words[1],
						strings.Join(headings, "; "))
				}
				text = []byte(section)
			}
			_, err = p.Stdout.Write(text)
			return err
		},
	}
}

// otherPages returns how to find the page that a reader of the page name wants, as a clause to end an error with.
func otherPages(files map[string][]byte, name string) string {
	pages, err := docsearch.Pages(files[docsearch.Index])
	if err != nil || !docsearch.HasWords(name) {
		return ": find it with 'conduit docs search'"
	}
	var names []string
	for i := range pages {
		names = append(names, pages[i].Name)
	}
	if hint := texts.Hint(name, names); hint != "" {
		return hint
	}
	hits := docsearch.Find(pages, name)
	if len(hits) == 0 {
		return ": find it with 'conduit docs search'"
	}
	best := "conduit docs read " + hits[0].Page.Name
	if section := hits[0].Section.Title; section != "" {
		best += " " + strconv.Quote(section)
	}
	return fmt.Sprintf(": read '%s', or find others with 'conduit docs search %s'", best, name)
}

// foundSection returns the section of a page at a place that 'conduit docs search' prints, such as
// "Conditions > PluginChanged" or its end; empty if there is none.
func foundSection(files map[string][]byte, page, place string) string {
	parts := strings.Split(place, " > ")
	for _, part := range slices.Backward(parts) {
		if section, _ := docsearch.SectionOf(string(files[page+".md"]), part); section != "" {
			return section
		}
	}
	pages, err := docsearch.Pages(files[docsearch.Index])
	if err != nil {
		return ""
	}
	for _, h := range docsearch.Find(pages, parts[len(parts)-1]) {
		if h.Page.Name == page && strings.EqualFold(h.Name, parts[len(parts)-1]) {
			section, _ := docsearch.SectionOf(string(files[page+".md"]), h.Section.Title)
			return section
		}
	}
	return ""
}
