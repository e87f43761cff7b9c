package docs

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/conduit-agent/conduit/api/docsearch"
	"github.com/conduit-agent/conduit/spec/texts"
)

// markdown converts CommonMark with tables. It has no parsers of HTML, so that HTML in a page is shown as text.
var markdown = sync.OnceValue(func() goldmark.Markdown {
	without := func(unwanted any, all []util.PrioritizedValue) []util.PrioritizedValue {
		return slices.DeleteFunc(all, func(p util.PrioritizedValue) bool { return p.Value == unwanted })
	}
	return goldmark.New(
		goldmark.WithParser(parser.NewParser(
			parser.WithBlockParsers(without(parser.NewHTMLBlockParser(), parser.DefaultBlockParsers())...),
			parser.WithInlineParsers(without(parser.NewRawHTMLParser(), parser.DefaultInlineParsers())...),
			parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...),
			parser.WithAutoHeadingID())),
		// The content security policy forbids style attributes.
		goldmark.WithExtensions(extension.NewTable(
			extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))))
})

// converter converts pages to HTML.
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

// convert returns a page as HTML, and its sections.
func (c *converter) convert(p *page) (html string, sections []section, err error) {
	source := []byte(p.Text)
	ids := parser.NewContext(parser.WithIDs(headingIDs{}))
	doc := markdown().Parser().Parse(text.NewReader(source), parser.WithContext(ids))
	sections = sectionsOf(doc, source)
	c.adapt(p, doc)
	var out bytes.Buffer
	if err := markdown().Renderer().Render(&out, source, doc); err != nil {
		return "", nil, fmt.Errorf("cannot convert page %s: %w", p.Name, err)
	}
	return strings.ReplaceAll(out.String(), "<pre>", `<pre tabindex="0">`), sections, nil // keys can scroll it
}

// adapt makes links lead to pages of the site, and tables scrollable by keys. A link without a page is replaced by its
// text, and so is an image: the site has none.
func (c *converter) adapt(p *page, doc ast.Node) {
	var dead []ast.Node
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		switch n := n.(type) {
		case *ast.Link:
			if to := c.target(p, string(n.Destination), ".html"); to != "" {
				n.Destination = []byte(to)
			} else if entering {
				dead = append(dead, n)
			}
		case *ast.Image:
			if entering {
				dead = append(dead, n)
			}
		case *tables.Table:
			n.SetAttributeString("tabindex", []byte("0"))
		}
		return ast.WalkContinue, nil
	})
	for _, n := range dead {
		for n.FirstChild() != nil {
			n.Parent().InsertBefore(n.Parent(), n, n.FirstChild())
		}
		n.Parent().RemoveChild(n.Parent(), n)
	}
}

// link matches a link of Markdown, or code, in which there are none.
var link = texts.Regexp("(?s)```.*?```|`[^`\n]*`|!?\\[((?:[^\\[\\]`]|`[^`\n]*`)*)\\]\\(([^()\\s]*)\\)")

// markdown returns the Markdown of a page, with links to the Markdown of other pages. A link without a page is replaced
// by its text.
func (c *converter) markdown(p *page) []byte {
	return []byte(link().ReplaceAllStringFunc(p.Text, func(found string) string {
		parts := link().FindStringSubmatch(found)
		switch to := c.target(p, parts[2], ".md"); {
		case parts[2] == "": // code
			return found
		case to == "" || found[0] == '!':
			return parts[1]
		default:
			return "[" + parts[1] + "](" + to + ")"
		}
	}))
}

// target returns where a link of a page leads in the site, to a file with this extension; "" for a file of the
// repository without a page.
func (c *converter) target(p *page, to, extension string) string {
	if p.Source == "" || strings.Contains(to, "://") || strings.HasPrefix(to, "#") {
		return to
	}
	file, fragment, _ := strings.Cut(to, "#")
	file = path.Join(path.Dir(p.Source), file)
	name := c.pages[file]
	if name == "" {
		name = c.pages[path.Join(file, "README.md")]
	}
	if name == "" {
		return ""
	}
	return name + extension + strings.TrimSuffix("#"+fragment, "#")
}

// headingIDs generates the ids that headings have on GitHub, and counts equal ones. It implements parser.IDs.
type headingIDs map[string]int

var linked = texts.Regexp(`\[([^\]]*)\]\([^)]*\)`)

// Generate implements parser.IDs.
func (h headingIDs) Generate(heading []byte, _ ast.NodeKind) []byte {
	id := docsearch.Anchor(linked().ReplaceAllString(string(heading), "$1"))
	n := h[id]
	h[id]++
	if n > 0 {
		id = fmt.Sprintf("%s-%d", id, n)
	}
	return []byte(id)
}

// Put implements parser.IDs. Pages set no ids themselves.
func (headingIDs) Put([]byte) {}
