// Package docsearch searches the documentation. The search is the one of the site, cmd/conduit/docs/assets/search.js,
// whose comments give the reasons.
package docsearch

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/spec/texts"
)

// Page is a page in the index of the documentation.
type Page struct {
	Name, Title, About, Words string
	Sections                  []Section
}

// Section is a section of a page.
type Section struct {
	Title, Text string
	Names       []string // of settings and the like
}

// Hit is a page that a search found.
type Hit struct {
	Page    *Page
	Section *Section // that fits best
	Name    string   // of a setting in the section, "" for none
	points  int      // twice those of the site, which has halves
}

// Index is the name of the file of the site that Pages reads.
const Index = "index.js"

// Pages returns the pages in the index of a site, in the order of the site.
func Pages(index []byte) (pages []Page, err error) {
	_, text, _ := bytes.Cut(index, []byte("="))
	if err := json.Unmarshal(bytes.TrimRight(bytes.TrimSpace(text), ";"), &pages); err != nil {
		return nil, fmt.Errorf("cannot read the index of the documentation: %w", err)
	}
	return pages, nil
}

// prepared is a text in the forms in which words are searched.
type prepared []string

func prepare(text string) prepared {
	var parts strings.Builder
	from := 0
	for i := 1; i < len(text); i++ {
		if text[i] >= 'A' && text[i] <= 'Z' && text[i-1] >= 'a' && text[i-1] <= 'z' {
			parts.WriteString(text[from:i] + " ")
			from = i
		}
	}
	if from == 0 {
		return prepared{strings.ToLower(text)}
	}
	return prepared{strings.ToLower(text), strings.ToLower(parts.String() + text[from:])}
}

// has reports whether a word of the text begins with one of the forms.
func (p prepared) has(forms []string) bool {
	for _, form := range forms {
		for _, text := range p {
			if begins(text, form) {
				return true
			}
		}
	}
	return false
}

func begins(text, prefix string) bool {
	for from := 0; from <= len(text); {
		at := strings.Index(text[from:], prefix)
		if at < 0 {
			return false
		}
		if at += from; at == 0 || !isWord(text[at-1]) {
			return true
		}
		from = at + 1
	}
	return false
}

func isWord(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

// filler are words that say nothing about the subject of a query.
var filler = strings.Fields("a an and are can do does for from how i in is it its my of on or the to what when where " +
	"which why with you")

// wordsOf divides a query. Every word has its forms.
func wordsOf(query string) (words [][]string) {
	separates := func(r rune) bool { return r < 0x80 && r != '.' && !isWord(byte(r)) }
	all := strings.FieldsFunc(strings.ToLower(query), separates)
	some := slices.DeleteFunc(slices.Clone(all), func(word string) bool { return slices.Contains(filler, word) })
	if len(some) == 0 {
		some = all
	}
	for _, word := range some {
		switch {
		case len(word) > 4 && strings.HasSuffix(word, "ies"):
			words = append(words, []string{word, strings.TrimSuffix(word, "ies") + "y"})
		case len(word) > 3 && strings.HasSuffix(word, "s"):
			words = append(words, []string{word, strings.TrimSuffix(word, "s")})
		default:
			words = append(words, []string{word})
		}
	}
	return words
}

// HasWords reports whether a query has words to search for.
func HasWords(query string) bool { return len(wordsOf(query)) > 0 }

// candidate is a section, or all of a page, with its prepared texts.
type candidate struct {
	section     *Section
	title, text prepared
	names       []prepared
}

// match returns how well a section of a page fits the words, 0 if more than missing words do not occur, and the name of
// a setting in it that fits the words which the title of the page does not have.
func match(title, about prepared, c *candidate, words [][]string, missing int) (points int, name string) {
	var rest [][]string
	for _, forms := range words {
		inTitle := title.has(forms)
		if !inTitle {
			rest = append(rest, forms)
		}
		switch {
		case inTitle:
			points += 20
		case slices.ContainsFunc(c.names, func(n prepared) bool { return n.has(forms) }):
			points += 12
		case c.title.has(forms):
			points += 10
		case about.has(forms):
			points += 8
		case c.text.has(forms):
			points++
		case missing == 0:
			return 0, ""
		default:
			missing--
		}
	}
	all := func(p prepared) bool {
		return len(rest) > 0 && !slices.ContainsFunc(rest, func(forms []string) bool { return !p.has(forms) })
	}
	if c.section != nil {
		for i, n := range c.names {
			if all(n) && (name == "" || len(c.section.Names[i]) < len(name)) {
				name = c.section.Names[i]
			}
		}
	}
	if len(rest) > 1 && (name != "" || all(c.title)) {
		points += 15
	}
	if len(rest) > 1 {
		var phrase []string
		for _, forms := range rest {
			phrase = append(phrase, forms[0])
		}
		if c.text.has([]string{strings.Join(phrase, " ")}) {
			points += 12
		}
	}
	if len(words) > 1 && len(rest) == 0 {
		points += 30
	}
	return points, name
}

// Find returns the pages in which every word of the query occurs, or else most words, the best first: none if it has no
// words.
func Find(pages []Page, query string) (hits []Hit) {
	words := wordsOf(query)
	for missing := 0; 2*missing < len(words) && len(hits) == 0; missing++ {
		hits = findMost(pages, words, missing)
	}
	return hits
}

// findMost is Find for pages that may miss some of the words.
func findMost(pages []Page, words [][]string, missing int) (hits []Hit) {
	for i := range pages {
		if h := pages[i].find(words, missing); h.points > 0 {
			hits = append(hits, h)
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.points, a.points) })
	return hits
}

func (p *Page) find(words [][]string, missing int) Hit {
	best := Hit{Page: p}
	title, about := prepare(p.Title), prepare(p.About+" "+p.Words)
	var page candidate
	for i := range p.Sections {
		s := &p.Sections[i]
		c := candidate{section: s, title: prepare(s.Title), text: prepare(s.Text)}
		for _, n := range s.Names {
			c.names = append(c.names, prepare(n))
		}
		if points, name := match(title, about, &c, words, missing); 2*points > best.points {
			best = Hit{p, s, name, 2 * points}
		}
		page.text = append(append(page.text, c.title...), append(c.text, slices.Concat(c.names...)...)...)
	}
	own := p.Name
	for _, kind := range []string{"connector-", "processor-"} {
		own = strings.TrimPrefix(own, kind)
	}
	switch {
	case best.points > 0 && len(words) == 1 && slices.Contains(words[0], own):
		best.points += 200
	case best.points == 0 && len(p.Sections) > 0: // the words occur in different sections
		best.Section = &p.Sections[0]
		best.points, _ = match(title, about, &page, words, missing)
	}
	return best
}

// Excerpt returns the text of a hit around its setting, or around the first word of the query.
func (h *Hit) Excerpt(query string) string {
	const before, length = 60, 240
	if h.Name != "" {
		query = h.Name
	}
	text := h.Section.Text
	lower, at := strings.ToLower(text), len(text)
	for _, forms := range wordsOf(query) {
		for _, form := range forms {
			if i := strings.Index(lower, form); i >= 0 {
				at = min(at, i)
			}
		}
	}
	from := whole(text, max(0, at-before))
	if space := strings.IndexByte(text[from:at], ' '); from > 0 && space >= 0 {
		from += space // begin with a whole word
	}
	return strings.TrimSpace(text[from:whole(text, min(len(text), from+length))])
}

// whole returns the start of the character at a place in text.
func whole(text string, at int) int {
	for at > 0 && at < len(text) && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}

// SectionOf returns the section with this heading of a page in Markdown, with the sections in it, and all headings of
// the page. The section is empty if the page does not have it.
func SectionOf(page, title string) (section string, headings []string) {
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
			case level == 0 && (strings.EqualFold(heading, strings.ReplaceAll(title, "`", "")) || Anchor(heading) == title):
				level = marks
			}
		}
		if level > 0 {
			b.WriteString(line)
		}
	}
	return b.String(), headings
}

var notInAnchor = texts.Regexp(`[^\p{L}\p{N} _-]`)

// Anchor returns the anchor of a heading, as on GitHub.
func Anchor(heading string) string {
	return strings.ReplaceAll(notInAnchor().ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}
