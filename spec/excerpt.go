package spec

import "github.com/conduit-agent/conduit/spec/excerpt"

// excerpts is how many problems of a file have an excerpt.
const excerpts = 10

// addExcerpts adds to the first problems of a file the lines that they are about.
func addExcerpts(data []byte, problems []Problem) {
	if len(problems) == 0 {
		return
	}
	text := excerpt.Of(data)
	for i := range problems[:min(len(problems), excerpts)] {
		problems[i].Excerpt = text.Around(problems[i].Line)
	}
}
