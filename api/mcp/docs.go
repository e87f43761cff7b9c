package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/conduit-agent/conduit/api/client"
)

type searching struct {
	Query string `json:"query" jsonschema:"words; every word must occur in a page"`
	Limit int    `json:"limit,omitempty" jsonschema:"maximum number of pages; default 8"`
}

// docsPage is a page in the index of the documentation.
type docsPage struct {
	Name, Title, About, Text string
	Headings                 []string
}

// found is a page that a search found.
type found struct {
	Page     string   `json:"page"`
	Title    string   `json:"title"`
	About    string   `json:"about"`
	Sections []string `json:"sections,omitempty"` // with one of the words
	Excerpt  string   `json:"excerpt"`
	points   int
}

func searchDocs(ctx context.Context, c *client.Client, in searching) (any, error) {
	words := strings.Fields(strings.ToLower(in.Query))
	if len(words) == 0 {
		return nil, errors.New("the query has no words")
	}
	pages, err := docsIndex(ctx, c)
	if err != nil {
		return nil, err
	}
	var all []found
	for i := range pages {
		if f := pages[i].find(words); f.points > 0 {
			all = append(all, f)
		}
	}
	if len(all) == 0 {
		return "nothing was found: use fewer or other words; read_docs without a page lists all pages", nil
	}
	slices.SortStableFunc(all, func(a, b found) int { return cmp.Compare(b.points, a.points) })
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
	text, err := c.Docs(ctx, name)
	var refused *client.Error
	if errors.As(err, &refused) && refused.HTTP == http.StatusNotFound {
		return nil, fmt.Errorf("there is no page %q\nRemedy: search_docs finds pages; an agent of conduit-edge has none",
			strings.TrimSuffix(name, ".md"))
	}
	return text, err
}

// find returns the page with points for how well it fits the words, as the search of the site does: a page whose title
// or headings have a word comes before one that only mentions it. A page without one of the words has no points.
func (p *docsPage) find(words []string) found {
	f := found{Page: p.Name, Title: p.Title, About: p.About}
	for _, word := range words {
		points := 0
		for _, h := range p.Headings {
			if begins(h, word) >= 0 {
				points = 5
				if !slices.Contains(f.Sections, h) {
					f.Sections = append(f.Sections, h)
				}
			}
		}
		at := begins(p.Text, word)
		switch {
		case begins(p.Title, word) >= 0 || p.Name == word:
			points = 10
		case points == 0 && at >= 0:
			points = 1
		case points == 0:
			return found{}
		}
		if f.Excerpt == "" && at >= 0 {
			f.Excerpt = excerpt(p.Text, at)
		}
		f.points += points
	}
	f.Sections = f.Sections[:min(len(f.Sections), 5)]
	return f
}

// begins returns where a word of text begins with this prefix in lower case, -1 if none does.
func begins(text, prefix string) int {
	lower := strings.ToLower(text)
	if len(lower) != len(text) { // positions would differ
		lower = text
	}
	for from := 0; ; {
		at := strings.Index(lower[from:], prefix)
		if at < 0 {
			return -1
		}
		if at += from; at == 0 || !isWord(rune(lower[at-1])) {
			return at
		}
		from = at + 1
	}
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// excerpt returns the text around a place.
func excerpt(text string, at int) string {
	const before, length = 60, 240
	from := max(0, at-before)
	if space := strings.IndexByte(text[from:at], ' '); from > 0 && space >= 0 {
		from += space + 1 // not in the middle of a word
	}
	return strings.TrimSpace(text[from:whole([]byte(text), min(len(text), from+length))])
}

type reading struct {
	Page    string `json:"page,omitempty" jsonschema:"name of the page, as search_docs returns it; default the list of pages"`
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
