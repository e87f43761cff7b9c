package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Splice replaces the pipeline with p's id in a pipeline file by p. Everything else in the file stays unchanged, byte
// for byte. Within the pipeline, comments and values that p does not change stay. Splice refuses a file for which it
// cannot guarantee that: a file with errors, with anchors or aliases in the pipeline, or with the list in braces.
func Splice(file []byte, p *Pipeline) ([]byte, error) {
	before := ParseFile("", file)
	if i := slices.IndexFunc(before.Problems, isError); i >= 0 {
		return nil, fmt.Errorf("it has an error; correct that first: %s", before.Problems[i].Message)
	}
	item, err := findItem(file, p.ID)
	if err != nil {
		return nil, err
	}
	text, err := item.merged(p)
	if err != nil {
		return nil, err
	}
	spliced := slices.Concat(file[:item.begin], text, file[item.end:])
	after := ParseFile("", spliced)
	if i := slices.IndexFunc(after.Problems, isError); i >= 0 {
		return nil, fmt.Errorf("it would have an error: %s", after.Problems[i].Message)
	}
	if !onlyChanges(before.Pipelines, after.Pipelines, p) {
		return nil, errors.New("its formatting cannot be preserved")
	}
	return spliced, nil
}

func isError(p Problem) bool { return p.Severity == SeverityError }

// onlyChanges reports whether after consists of p and the unchanged other pipelines of before.
func onlyChanges(before, after []Parsed, p *Pipeline) bool {
	if len(before) != len(after) {
		return false
	}
	for i := range before {
		was, is := &before[i].Pipeline, &after[i].Pipeline
		if was.ID == p.ID {
			was = p
		}
		if !Equal(was, is) || was.Status != is.Status || was.ID != is.ID {
			return false
		}
	}
	return true
}

// listItem is an item of the list of pipelines: from its first key to the end of the last line.
type listItem struct {
	file       []byte
	begin, end int
	indent     int // indentation of the keys
}

// findItem returns the item of the pipeline with this id in the file.
func findItem(file []byte, id string) (*listItem, error) {
	var found *yaml.Node
	for d := yaml.NewDecoder(bytes.NewReader(file)); ; {
		var doc yaml.Node
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, errors.New("its documents cannot be distinguished")
		}
		list := valueOf(&doc, "pipelines")
		if list == nil || list.Kind != yaml.SequenceNode {
			continue
		}
		for _, one := range list.Content {
			name := valueOf(one, "id")
			switch {
			case name == nil || name.Value != id:
			case found != nil:
				return nil, errors.New("it declares the pipeline more than once")
			case list.Style&yaml.FlowStyle != 0 || one.Style&yaml.FlowStyle != 0:
				return nil, errors.New("the pipeline is written in braces, not on separate lines")
			default:
				found = one
			}
		}
	}
	if found == nil {
		return nil,
			errors.New("no pipeline in it has this literal id: the id may be a reference or an alias")
	}
	if anchored(found) {
		return nil, errors.New("the pipeline has anchors, aliases or merged keys (&, * or <<)")
	}
	return itemAt(file, found), nil
}

// valueOf returns the value of a key in a mapping, or in the mapping of a document; nil when there is none.
func valueOf(n *yaml.Node, key string) *yaml.Node {
	if n.Kind == yaml.DocumentNode && len(n.Content) == 1 {
		n = n.Content[0]
	}
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func anchored(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || n.Anchor != "" || n.Tag == "!!merge" || slices.ContainsFunc(n.Content, anchored)
}

// itemAt returns the item of the mapping n. It ends with the last line that is indented like its keys, or deeper.
func itemAt(file []byte, n *yaml.Node) *listItem {
	item := &listItem{file: file, indent: n.Column - 1}
	last := lastLine(n)
	at, line := 0, 1
	for text := range bytes.Lines(file) {
		if line == n.Line {
			item.begin = at + item.indent
		}
		at += len(text)
		content := bytes.TrimLeft(text, " ")
		within := len(text)-len(content) >= item.indent
		blank := len(bytes.TrimSpace(text)) == 0
		switch {
		case line >= n.Line && (line <= last || within && !blank && item.end > 0):
			item.end = at
		case line > last && !blank:
			return item
		}
		line++
	}
	return item
}

// lastLine returns the last line in which a value within n begins.
func lastLine(n *yaml.Node) int {
	last := n.Line
	for _, c := range n.Content {
		last = max(last, lastLine(c))
	}
	return last
}

// merged returns the text of the item with the content of p.
func (l *listItem) merged(p *Pipeline) ([]byte, error) {
	text := l.file[l.begin:l.end]
	ends := "\n"
	if bytes.Contains(text, []byte("\r\n")) {
		ends = "\r\n"
	}
	var alone strings.Builder
	for line := range strings.Lines(string(text)) {
		if alone.Len() > 0 {
			line = line[min(l.indent, len(line)-len(strings.TrimLeft(line, " "))):]
		}
		alone.WriteString(line)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(alone.String()), &doc); err != nil || len(doc.Content) != 1 {
		return nil, errors.New("the lines of the pipeline cannot be separated from others")
	}
	want := pipelineNode(p)
	if valueOf(&doc, "status") == nil && p.Status == StatusRunning {
		want.Content = withoutKey(want.Content, "status") // it is the default
	}
	merge(doc.Content[0], want)
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(&doc), encoder.Close()); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSuffix(line, "\n")
		if out.Len() > 0 && line != "" {
			out.WriteString(strings.Repeat(" ", l.indent))
		}
		out.WriteString(line + ends)
	}
	return out.Bytes(), nil
}

func withoutKey(content []*yaml.Node, key string) []*yaml.Node {
	for i := 0; i+1 < len(content); i += 2 {
		if content[i].Value == key {
			return slices.Delete(content, i, i+2)
		}
	}
	return content
}

// merge replaces the content of is by the content of want. Unchanged parts keep their text and their comments.
func merge(is, want *yaml.Node) {
	switch {
	case is.Kind != want.Kind, is.Kind == yaml.ScalarNode && is.Value != want.Value:
		is.Kind, is.Tag, is.Value, is.Style, is.Content = want.Kind, want.Tag, want.Value, want.Style, want.Content
	case is.Kind == yaml.MappingNode:
		mergeFields(is, want)
	case is.Kind == yaml.SequenceNode:
		mergeList(is, want)
	}
}

func mergeFields(is, want *yaml.Node) {
	kept := is.Content[:0:0]
	for i := 0; i+1 < len(is.Content); i += 2 {
		if value := valueOf(want, is.Content[i].Value); value != nil {
			merge(is.Content[i+1], value)
			kept = append(kept, is.Content[i], is.Content[i+1])
		}
	}
	for i := 0; i+1 < len(want.Content); i += 2 {
		if valueOf(is, want.Content[i].Value) == nil {
			kept = append(kept, want.Content[i], want.Content[i+1])
		}
	}
	is.Content = kept
}

// mergeList matches items by their ids.
func mergeList(is, want *yaml.Node) {
	kept := is.Content[:0:0]
	for _, item := range want.Content {
		id := valueOf(item, "id")
		i := slices.IndexFunc(is.Content, func(n *yaml.Node) bool {
			name := valueOf(n, "id")
			return id != nil && name != nil && name.Value == id.Value
		})
		if i >= 0 {
			merge(is.Content[i], item)
			item = is.Content[i]
		}
		kept = append(kept, item)
	}
	is.Content = kept
}
