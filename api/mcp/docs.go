package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/conduit-agent/conduit/api/client"
)

type searching struct {
	Query string `json:"query" jsonschema:"words; every word must occur in a page"`
	Limit int    `json:"limit,omitempty" jsonschema:"maximum number of pages; default 8"`
}

// found is a page that a search found, with the section that fits best.
type found struct {
	Page    string `json:"page"`
	Title   string `json:"title"`
	About   string `json:"about"`
	Section string `json:"section,omitempty"`
	Name    string `json:"name,omitempty"` // of a setting in the section
	Excerpt string `json:"excerpt"`
}

func searchDocs(ctx context.Context, c *client.Client, in searching) (any, error) {
	if len(wordsOf(in.Query)) == 0 {
		return nil, errors.New("the query has no words")
	}
	pages, err := docsIndex(ctx, c)
	if err != nil {
		return nil, err
	}
	var all []found
	for _, h := range search(pages, in.Query) {
		words := in.Query
		if h.name != "" {
			words = h.name
		}
		all = append(all, found{h.page.Name, h.page.Title, h.page.About, h.section.Title, h.name,
			excerpt(h.section.Text, words)})
	}
	if len(all) == 0 {
		return "nothing was found: use fewer or other words; read_docs without a page lists all pages", nil
	}
	return paged(all, limited(in.Limit, 8, 50), func(found) string { return "use more words, or a larger limit" })
}

// docsIndex returns the pages of the documentation, in the order of the site.
func docsIndex(ctx context.Context, c *client.Client) (pages []docsPage, err error) {
	script, err := docsFile(ctx, c, "index.js")
	if err != nil {
		return nil, err
	}
	_, text, _ := bytes.Cut(script, []byte("="))
	if err := json.Unmarshal(bytes.TrimRight(bytes.TrimSpace(text), ";"), &pages); err != nil {
		return nil, fmt.Errorf("cannot read the index of the documentation: %w", err)
	}
	return pages, nil
}

func docsFile(ctx context.Context, c *client.Client, name string) ([]byte, error) {
	text, err := client.Docs(ctx, c, name)
	var refused *client.Error
	if errors.As(err, &refused) && refused.HTTP == http.StatusNotFound {
		return nil, fmt.Errorf("there is no page %q\nRemedy: search_docs finds pages; an agent of conduit-edge has none",
			strings.TrimSuffix(name, ".md"))
	}
	return text, err
}

type reading struct {
	Page    string `json:"page,omitempty" jsonschema:"name from search_docs; default the list of pages"`
	Section string `json:"section,omitempty" jsonschema:"heading of a section; default the whole page"`
	part
}

func readDocs(ctx context.Context, c *client.Client, in reading) (any, error) {
	name := "llms.txt"
	if in.Page != "" {
		name = in.Page + ".md"
	}
	text, err := docsFile(ctx, c, name)
	if err != nil {
		return nil, err
	}
	if in.Section == "" {
		return in.of(string(text))
	}
	section, headings := sectionOf(string(text), in.Section)
	if section == "" {
		return nil, fmt.Errorf("page %q has no section %q\nIts sections: %s", in.Page, in.Section,
			strings.Join(headings, "; "))
	}
	return in.of(section)
}

// sectionOf returns the section with this heading, with the sections in it, and all headings.
func sectionOf(page, title string) (section string, headings []string) {
	var b strings.Builder
	level, code := 0, false
	for line := range strings.Lines(page) {
		code = code != strings.HasPrefix(line, "```")
		marks := len(line) - len(strings.TrimLeft(line, "#"))
		if marks > 0 && !code {
			heading := strings.TrimSpace(strings.ReplaceAll(line[marks:], "`", ""))
			headings = append(headings, heading)
			switch {
			case level > 0 && marks <= level:
				level = -1
			case level == 0 && strings.EqualFold(heading, strings.ReplaceAll(title, "`", "")):
				level = marks
			}
		}
		if level > 0 {
			b.WriteString(line)
		}
	}
	return b.String(), headings
}
