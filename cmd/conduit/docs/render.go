package docs

import (
	"fmt"
	"html"
	"path"
	"strings"

	"github.com/conduit-agent/conduit/spec/lazy"
)

// converter converts the subset of Markdown that the pages use to HTML: headings, paragraphs, lists, tables, code,
// emphasis and links. Other Markdown is shown as it is written.
type converter struct {
	pages map[string]string // names by path of the Markdown in the repository
}

func newConverter(all []page) *converter {
	c := &converter{pages: map[string]string{}}
	for _, p := range all {
		if p.Source != "" && c.pages[p.Source] == "" {
			c.pages[p.Source] = p.Name
		}
	}
	return c
}

// blocks converts a page to HTML.
type blocks struct {
	*converter
	page  *page
	lines []string
	out   strings.Builder
	ids   map[string]int // of headings
}

func (c *converter) html(p *page) string {
	b := &blocks{converter: c, page: p, lines: strings.Split(p.Text, "\n"), ids: map[string]int{}}
	b.convert()
	return b.out.String()
}

var (
	headingLine = lazy.Regexp(`^(#{1,6}) +(.*?)\s*$`)
	itemLine    = lazy.Regexp(`^( *)([-*]|\d+\.) +(.*)$`)
	fenceLine   = lazy.Regexp("^( *)(```|~~~~)")
	ruleLine    = lazy.Regexp(`^\|[-:| ]+\|$`)
)

// convert converts the lines block by block.
func (b *blocks) convert() {
	for len(b.lines) > 0 {
		line := b.lines[0]
		switch {
		case strings.TrimSpace(line) == "":
			b.lines = b.lines[1:]
		case fenceLine().MatchString(line):
			b.code()
		case headingLine().MatchString(line):
			b.heading()
		case len(b.lines) > 1 && strings.HasPrefix(line, "|") && ruleLine().MatchString(strings.TrimSpace(b.lines[1])):
			b.table()
		case itemLine().MatchString(line):
			b.list()
		default:
			b.paragraph()
		}
	}
}

func (b *blocks) code() {
	m := fenceLine().FindStringSubmatch(b.lines[0])
	b.lines = b.lines[1:]
	b.out.WriteString("<pre tabindex=\"0\"><code>")
	for len(b.lines) > 0 && !strings.HasPrefix(strings.TrimSpace(b.lines[0]), m[2]) {
		b.out.WriteString(html.EscapeString(strings.TrimPrefix(b.lines[0], m[1])) + "\n")
		b.lines = b.lines[1:]
	}
	b.lines = b.lines[min(1, len(b.lines)):]
	b.out.WriteString("</code></pre>\n")
}

var notInID = lazy.Regexp(`[^\p{L}\p{N} _-]`)

// heading gives a heading the id that it has on GitHub.
func (b *blocks) heading() {
	m := headingLine().FindStringSubmatch(b.lines[0])
	b.lines = b.lines[1:]
	id := strings.ReplaceAll(notInID().ReplaceAllString(strings.ToLower(linked().ReplaceAllString(m[2], "$1")), ""), " ", "-")
	b.ids[id]++
	if n := b.ids[id]; n > 1 {
		id = fmt.Sprintf("%s-%d", id, n-1)
	}
	fmt.Fprintf(&b.out, "<h%d id=\"%s\">%s</h%d>\n", len(m[1]), html.EscapeString(id), b.inline(m[2]), len(m[1]))
}

func (b *blocks) table() {
	b.out.WriteString(`<table tabindex="0">` + "\n") // which keys can scroll
	cell := "th"
	for i := 0; len(b.lines) > 0 && strings.HasPrefix(b.lines[0], "|"); i++ {
		line := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(b.lines[0]), "|"), "|")
		b.lines = b.lines[1:]
		if i == 1 {
			continue // the rule
		}
		b.out.WriteString("<tr>")
		for text := range strings.SplitSeq(strings.ReplaceAll(line, `\|`, "\x00"), "|") {
			fmt.Fprintf(&b.out, "<%s>%s</%s>", cell, b.inline(strings.TrimSpace(strings.ReplaceAll(text, "\x00", "|"))), cell)
		}
		b.out.WriteString("</tr>\n")
		cell = "td"
	}
	b.out.WriteString("</table>\n")
}

// list takes the items at the indent of the first one, with the indented text below them.
func (b *blocks) list() {
	first := itemLine().FindStringSubmatch(b.lines[0])
	kind := "ol"
	if first[2] == "-" || first[2] == "*" {
		kind = "ul"
	}
	b.out.WriteString("<" + kind + ">\n")
	for len(b.lines) > 0 {
		m := itemLine().FindStringSubmatch(b.lines[0])
		if m == nil || len(m[1]) != len(first[1]) {
			break
		}
		width := len(b.lines[0]) - len(m[3])
		inner := &blocks{converter: b.converter, page: b.page, lines: []string{m[3]}, ids: b.ids}
		b.lines = b.lines[1:]
		for len(b.lines) > 0 && b.within(len(m[1]), width) {
			inner.lines = append(inner.lines, strings.TrimPrefix(b.lines[0], strings.Repeat(" ", min(width, len(b.lines[0])-len(strings.TrimLeft(b.lines[0], " "))))))
			b.lines = b.lines[1:]
		}
		inner.convert()
		text := inner.out.String()
		if strings.Count(text, "<p>") == 1 { // without the space around paragraphs
			text = strings.NewReplacer("<p>", "", "</p>", "").Replace(text)
		}
		b.out.WriteString("<li>" + text + "</li>\n")
	}
	b.out.WriteString("</" + kind + ">\n")
}

// within reports whether the next line belongs to the previous item.
func (b *blocks) within(indent, width int) bool {
	line := b.lines[0]
	if strings.TrimSpace(line) == "" {
		return len(b.lines) > 1 && strings.HasPrefix(b.lines[1], strings.Repeat(" ", width))
	}
	if strings.HasPrefix(line, strings.Repeat(" ", indent+1)) {
		return true
	}
	return !itemLine().MatchString(line) && !headingLine().MatchString(line) && !fenceLine().MatchString(line) && !strings.HasPrefix(line, "|") // the paragraph continues
}

func (b *blocks) paragraph() {
	var text []string
	for len(b.lines) > 0 {
		line := b.lines[0]
		if strings.TrimSpace(line) == "" || len(text) > 0 && (fenceLine().MatchString(line) || headingLine().MatchString(line) || itemLine().MatchString(line) || strings.HasPrefix(line, "|")) {
			break
		}
		text = append(text, strings.TrimSpace(line))
		b.lines = b.lines[1:]
	}
	b.out.WriteString("<p>" + b.inline(strings.Join(text, "\n")) + "</p>\n")
}

var (
	spans    = lazy.Regexp("(?s)``(.+?)``|`([^`]+)`|!?\\[((?:[^\\[\\]]|\\[[^\\]]*\\])*)\\]\\(([^)\\s]+)\\)|\\*\\*(.+?)\\*\\*|\\\\([!-/:-@\\[-`{-~])|<(https?://[^>]+)>")
	linked   = lazy.Regexp(`\[([^\]]*)\]\([^)]*\)`)
	emphasis = lazy.Regexp(`(^|[\s(])\*([^\s*][^*]*)\*`)
)

// inline converts text within a block to HTML.
func (b *blocks) inline(text string) string {
	var out strings.Builder
	plain := func(text string) {
		out.WriteString(emphasis().ReplaceAllString(html.EscapeString(text), "$1<em>$2</em>"))
	}
	for {
		m := spans().FindStringSubmatchIndex(text)
		if m == nil {
			plain(text)
			return out.String()
		}
		plain(text[:m[0]])
		group := func(i int) string {
			if m[2*i] < 0 {
				return ""
			}
			return text[m[2*i]:m[2*i+1]]
		}
		switch {
		case m[2] >= 0, m[4] >= 0:
			out.WriteString("<code>" + html.EscapeString(strings.TrimSpace(group(1)+group(2))) + "</code>")
		case m[8] >= 0:
			out.WriteString(b.link(group(3), group(4), text[m[0]] == '!'))
		case m[10] >= 0:
			out.WriteString("<strong>" + b.inline(group(5)) + "</strong>")
		case m[12] >= 0:
			out.WriteString(html.EscapeString(group(6)))
		default:
			out.WriteString(anchor(group(7), html.EscapeString(group(7))))
		}
		text = text[m[1]:]
	}
}

func anchor(to, content string) string {
	return `<a href="` + html.EscapeString(to) + `">` + content + "</a>"
}

// link leads to the page of the site for the linked file of the repository. A link to a file without a page becomes
// text, and so does an image: the site requests none.
func (b *blocks) link(text, to string, image bool) string {
	content := b.inline(text)
	if image {
		return content
	}
	if b.page.Source == "" || strings.Contains(to, "://") || strings.HasPrefix(to, "#") {
		return anchor(to, content)
	}
	file, fragment, _ := strings.Cut(to, "#")
	file = path.Join(path.Dir(b.page.Source), file)
	name := b.pages[file]
	if name == "" {
		name = b.pages[path.Join(file, "README.md")]
	}
	if name == "" {
		return content
	}
	return anchor(name+".html"+strings.TrimSuffix("#"+fragment, "#"), content)
}
