package docs

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	tables "github.com/yuin/goldmark/extension/ast"
)

// A section is the text of a page below one heading, up to the next.
type section struct {
	Title string   `json:"title,omitempty"` // empty for the text above the first heading
	ID    string   `json:"id,omitempty"`    // of the heading
	Names []string `json:"names,omitempty"` // settings and the like: code in the first column of its tables
	Text  string   `json:"text"`
}

// sectionsOf divides a page.
func sectionsOf(doc ast.Node, source []byte) []section {
	all := []section{{}}
	var text strings.Builder
	end := func() {
		all[len(all)-1].Text = strings.Join(strings.Fields(text.String()), " ")
		text.Reset()
	}
	for block := doc.FirstChild(); block != nil; block = block.NextSibling() {
		if h, ok := block.(*ast.Heading); ok {
			title := strings.Join(strings.Fields(textOf(h, source)), " ")
			if h.Level == 1 {
				continue // the title of the page
			}
			end()
			id, _ := h.AttributeString("id")
			name, _ := id.([]byte)
			all = append(all, section{Title: title, ID: string(name)})
			continue
		}
		last := &all[len(all)-1]
		last.Names = append(last.Names, mark(block, source, last)...)
		text.WriteString(textOf(block, source))
		text.WriteByte(' ')
	}
	end()
	return slices.DeleteFunc(all, func(s section) bool { return s.Title == "" && s.Text == "" })
}

// mark returns the first cells of the rows of a table in section s that are code, and gives these rows ids: that of the
// section, a dot and the name. A name that the section already has is left out.
func mark(table ast.Node, source []byte, s *section) (names []string) {
	if table.Kind() != tables.KindTable {
		return nil
	}
	for row := table.FirstChild(); row != nil; row = row.NextSibling() {
		cell := row.FirstChild()
		if row.Kind() != tables.KindTableRow || cell == nil || cell.FirstChild() == nil ||
			cell.FirstChild().Kind() != ast.KindCodeSpan {
			continue
		}
		name := textOf(cell.FirstChild(), source)
		if strings.ContainsAny(name, " \"") || slices.Contains(names, name) || slices.Contains(s.Names, name) {
			continue
		}
		row.SetAttributeString("id", []byte(s.ID+"."+name))
		names = append(names, name)
	}
	return names
}

// textOf returns the text of a node without marks.
func textOf(node ast.Node, source []byte) string {
	var text strings.Builder
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				text.Write(n.Value(source))
				if n.SoftLineBreak() || n.HardLineBreak() {
					text.WriteByte(' ')
				}
			}
		case *ast.String:
			if entering {
				text.Write(n.Value)
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			if entering {
				text.Write(n.Lines().Value(source))
			}
		default:
			if !entering && n.Type() == ast.TypeBlock {
				text.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return text.String()
}

// entry is a page in the index of the search.
type entry struct {
	Name     string    `json:"name"`
	Title    string    `json:"title"`
	About    string    `json:"about"`
	Words    string    `json:"words,omitempty"` // that people search, and that the page does not use
	Sections []section `json:"sections"`
}

// searchIndex returns a script with the index of the search.
func searchIndex(all []entry) []byte {
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // it consists of texts
	}
	return append(append([]byte("window.conduitPages = "), text...), ";\n"...)
}
