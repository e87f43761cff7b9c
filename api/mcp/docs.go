package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/docsearch"
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
	if !docsearch.HasWords(in.Query) {
		return nil, errors.New("the query has no words")
	}
	index, err := docsFile(ctx, c, docsearch.Index)
	if err != nil {
		return nil, err
	}
	pages, err := docsearch.Pages(index)
	if err != nil {
		return nil, err
	}
	var all []found
	for _, h := range docsearch.Find(pages, in.Query) {
		all = append(all, found{h.Page.Name, h.Page.Title, h.Page.About, h.Section.Title, h.Name, h.Excerpt(in.Query)})
	}
	if len(all) == 0 {
		return "nothing was found: use fewer or other words; read_docs without a page lists all pages", nil
	}
	return paged(all, limited(in.Limit, 8, 50), func(found) string { return "use more words, or a larger limit" })
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
		return in.excerpt(string(text))
	}
	section, headings := docsearch.SectionOf(string(text), in.Section)
	if section == "" {
		return nil, fmt.Errorf("page %q has no section %q\nIts sections: %s", in.Page, in.Section,
			strings.Join(headings, "; "))
	}
	return in.excerpt(section)
}
