package mcp

import (
	"cmp"
	"slices"
	"strings"
)

// The search is the one of the site, cmd/conduit/docs/assets/search.js, whose comments give the reasons.

// docsPage is a page in the index of the documentation.
type docsPage struct {
	Name, Title, About, Words string
	Sections                  []docsSection
}

// docsSection is a section of a page.
type docsSection struct {
	Title, Text string
	Names       []string // of settings and the like
}

// hit is a page that a search found.
type hit struct {
	page    *docsPage
	section *docsSection
	name    string // of a setting in the section, "" for none
	points  int    // twice those of the site, which has halves
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

// wordsOf divides a query. Every word has its forms.
func wordsOf(query string) (words [][]string) {
	separates := func(r rune) bool { return r < 0x80 && r != '.' && !isWord(byte(r)) }
	for _, word := range strings.FieldsFunc(strings.ToLower(query), separates) {
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

// candidate is a section, or all of a page, with its prepared texts.
type candidate struct {
	section     *docsSection
	title, text prepared
	names       []prepared
}

// match returns how well a section of a page fits the words, 0 if one does not occur, and the name of a setting in it
// that fits the words which the title of the page does not have.
func match(title, about prepared, c *candidate, words [][]string) (points int, name string) {
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
		default:
			return 0, ""
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

// search returns the pages for a query, the best first.
func search(pages []docsPage, query string) (hits []hit) {
	words := wordsOf(query)
	if len(words) == 0 {
		return nil
	}
	for i := range pages {
		if h := pages[i].find(words); h.points > 0 {
			hits = append(hits, h)
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.points, a.points) })
	return hits
}

func (p *docsPage) find(words [][]string) hit {
	best := hit{page: p}
	title, about := prepare(p.Title), prepare(p.About+" "+p.Words)
	var page candidate
	for i := range p.Sections {
		s := &p.Sections[i]
		c := candidate{section: s, title: prepare(s.Title), text: prepare(s.Text)}
		for _, n := range s.Names {
			c.names = append(c.names, prepare(n))
		}
		if points, name := match(title, about, &c, words); 2*points > best.points {
			best = hit{p, s, name, 2 * points}
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
		best.section = &p.Sections[0]
		best.points, _ = match(title, about, &page, words)
	}
	return best
}

// excerpt returns the text around the first word of a query.
func excerpt(text, query string) string {
	const before, length = 60, 240
	lower, at := strings.ToLower(text), len(text)
	for _, forms := range wordsOf(query) {
		for _, form := range forms {
			if i := strings.Index(lower, form); i >= 0 {
				at = min(at, i)
			}
		}
	}
	from := whole([]byte(text), max(0, at-before))
	return strings.TrimSpace(text[from:whole([]byte(text), min(len(text), from+length))])
}
