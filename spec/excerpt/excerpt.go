// Package excerpt cuts the lines around a place out of a text for people, without secrets.
package excerpt

import (
	"strings"

	"github.com/conduit-agent/conduit/spec/secret"
)

const (
	around = 2   // lines before and after the one that is asked for
	length = 160 // characters of a line that are shown
)

// Text is the lines of a text.
type Text []string

// Of returns the text of a file.
func Of(data []byte) Text {
	return strings.Split(strings.ToValidUTF8(secret.Text(string(data)), "\uFFFD"), "\n")
}

// Around returns the lines around a line, which count from 1; "" when there is no such line.
func (t Text) Around(line int) string {
	if line < 1 || line > len(t) {
		return ""
	}
	var shown []string
	for _, one := range t[max(0, line-1-around):min(len(t), line+around)] {
		text := []rune(strings.TrimRight(one, "\r"))
		if len(text) > length {
			text = append(text[:length:length], '…')
		}
		shown = append(shown, string(text))
	}
	return strings.Join(shown, "\n")
}
