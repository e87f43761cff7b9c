package spec

import (
	"strings"
)

const (
	excerpts      = 10  // number of problems of a file that have an excerpt
	excerptAround = 2   // lines before and after the requested line
	excerptLength = 160 // maximum number of characters shown of a line
)

// addExcerpts adds an excerpt of the file to its first problems.
func addExcerpts(data []byte, problems []Problem) {
	if len(problems) == 0 {
		return
	}
	lines := strings.Split(strings.ToValidUTF8(RedactText(string(data)), "\uFFFD"), "\n")
	for i := range problems[:min(len(problems), excerpts)] {
		problems[i].Excerpt = excerpt(lines, problems[i].Line)
	}
}

// excerpt returns the lines around a line, counted from 1; "" when there is no such line.
func excerpt(lines []string, line int) string {
	if line < 1 || line > len(lines) {
		return ""
	}
	var shown []string
	for _, one := range lines[max(0, line-1-excerptAround):min(len(lines), line+excerptAround)] {
		text := []rune(strings.TrimRight(one, "\r"))
		if len(text) > excerptLength {
			text = append(text[:excerptLength:excerptLength], '…')
		}
		shown = append(shown, string(text))
	}
	return strings.Join(shown, "\n")
}
