package spec

import (
	"strings"

	"github.com/conduit-agent/conduit/spec/secret"
)

const (
	excerptAround   = 2   // lines shown before and after the one that a problem is about
	excerptProblems = 10  // of a file that have an excerpt
	excerptLength   = 160 // characters of a line that are shown
)

// excerpt adds to the first problems of a file the lines that they are about.
func excerpt(data []byte, problems []Problem) {
	if len(problems) == 0 {
		return
	}
	lines := strings.Split(strings.ToValidUTF8(secret.Text(string(data)), "\uFFFD"), "\n")
	for i := range problems[:min(len(problems), excerptProblems)] {
		p := &problems[i]
		if p.Line < 1 || p.Line > len(lines) {
			continue
		}
		var shown []string
		for _, line := range lines[max(0, p.Line-1-excerptAround):min(len(lines), p.Line+excerptAround)] {
			text := []rune(strings.TrimRight(line, "\r"))
			if len(text) > excerptLength {
				text = append(text[:excerptLength:excerptLength], '…')
			}
			shown = append(shown, string(text))
		}
		p.Excerpt = strings.Join(shown, "\n")
	}
}
