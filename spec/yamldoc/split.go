package yamldoc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/conduit-agent/conduit/spec/texts"
)

// chunk is the text of a YAML document. A line that starts with "---" or "..." can only be the start or end of a
// document, so splitting there keeps a syntax error from spoiling the documents after it.
type chunk struct {
	line int // number of lines of the file before it
	text []byte
}

// split cuts text at the starts and ends of documents.
func split(text []byte) []chunk {
	var chunks []chunk
	start, startLine, at, content := 0, 0, 0, false
	cut := func(line int) {
		if content {
			chunks = append(chunks, chunk{startLine, text[start:at]})
			start, startLine, content = at, line, false
		}
	}
	number := 0
	for line := range bytes.Lines(text) {
		if marks("---", line) {
			cut(number)
		}
		content = content || hasContent(line)
		at += len(line)
		number++
		if marks("...", line) {
			cut(number)
		}
	}
	cut(number)
	return chunks
}

// marks reports whether line is the document marker, with or without something after it.
func marks(marker string, line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0)
}

// hasContent reports whether line may be part of a document's content. Starts of documents, comments and directives are
// no content.
func hasContent(line []byte) bool {
	if marks("---", line) {
		line = line[3:]
	} else if bytes.HasPrefix(line, []byte("%")) {
		return false
	}
	line = bytes.TrimSpace(line)
	return len(line) > 0 && line[0] != '#' && string(line) != "..."
}

// parse returns the root nodes of the chunk's documents up to the first syntax error. Lines of the nodes are lines of
// the file.
func (c chunk) parse() ([]*yaml.Node, *Fault) {
	var docs []*yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(c.text))
	for {
		var doc yaml.Node
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return docs, c.syntaxError(err)
		}
		if len(doc.Content) == 1 && !isNull(doc.Content[0]) {
			moveDown(&doc, c.line)
			docs = append(docs, doc.Content[0])
		}
	}
}

// moveDown adds lines to the places of n and all nodes below it, once each: aliases are not followed.
func moveDown(n *yaml.Node, lines int) {
	n.Line += lines
	for _, child := range n.Content {
		moveDown(child, lines)
	}
}

var syntaxErrorText = texts.Regexp(`^yaml: (?:line (\d+): )?(.*)$`)

// blockError matches errors for which the library counts lines from zero.
var blockError = texts.Regexp(`^did not find expected (key|',' or|node content|'-' indicator|<)`)

func (c chunk) syntaxError(err error) *Fault {
	line, message := 1, err.Error()
	if m := syntaxErrorText().FindStringSubmatch(message); m != nil {
		message = m[2]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
			if blockError().MatchString(message) {
				line++
			}
		}
	}
	if cause := c.diagnose(line, message); cause != nil {
		return cause
	}
	return &Fault{Mark: Mark{line + c.line, c.indent(line)},
		Message: fmt.Sprintf("the YAML is not valid here or shortly after: %s%s", message, syntaxHint(message))}
}

// indent returns the column of the first non-blank character in a line of c: the library reports lines only.
func (c chunk) indent(line int) int {
	lines := bytes.Split(c.text, []byte{'\n'})
	if line < 1 || line > len(lines) {
		return 1
	}
	text := lines[line-1]
	return len(text) - len(bytes.TrimLeft(text, " \t")) + 1
}

func syntaxHint(message string) string {
	switch {
	case strings.Contains(message, "cannot start any token"):
		return "; indent with spaces, not tabs, and quote values that start with @, ` or %"
	case strings.Contains(message, "mapping values are not allowed"):
		return "; check the indentation, and quote values that contain \": \""
	case strings.Contains(message, "did not find expected key"), strings.Contains(message, "'-' indicator"):
		return "; check the indentation of this block and that its quotes and brackets are closed"
	case strings.Contains(message, "could not find expected ':'"):
		return "; a \":\" and a space must follow the name of a field"
	}
	return ""
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }
