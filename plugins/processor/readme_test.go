package processor_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// TestREADME compares the pages of the processors in README.md with their descriptions and examples. With -update it
// writes them.
func TestREADME(t *testing.T) {
	const begin, end = "<!-- processors -->\n", "<!-- /processors -->\n"
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(b), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("README.md has no place for the processors: want %s and %s", begin, end)
	}
	var pages strings.Builder
	plugins := slices.SortedFunc(slices.Values(processors.All()), func(a, b sdk.ProcessorPlugin) int {
		return cmp.Compare(a.Name, b.Name)
	})
	for _, p := range plugins {
		writePage(t, &pages, p)
	}
	want := head + begin + pages.String() + end + tail
	if *update {
		if err := os.WriteFile("README.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(b) {
		t.Error("README.md is not what the processors say of themselves; run go test ./plugins/processor -run README " +
			"-update")
	}
}

func writePage(t *testing.T, w *strings.Builder, p sdk.ProcessorPlugin) {
	fmt.Fprintf(w, "\n### %s\n\n%s\n", p.Name, fill(p.Summary+" "+p.Description))
	if p.Stateful {
		fmt.Fprint(w, "\nIt is stateful: `workers` must be 1.\n")
	}
	params := p.New().Parameters()
	if len(params) > 0 {
		fmt.Fprint(w, "\n| setting | default | |\n|---|---|---|\n")
	}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		param := params[name]
		if param.Description == "" {
			t.Errorf("%s: setting %s has no description", p.Name, name)
		}
		def := ""
		if param.Default != "" {
			def = "`" + param.Default + "`"
		}
		fmt.Fprintf(w, "| `%s` | %s | %s%s |\n", name, def, strings.ReplaceAll(param.Description, "|", `\|`),
			rules(param))
	}
	for _, e := range examplesOf(t, p.Name) {
		text, err := e.Text()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(w, "\n**%s**\n\n```yaml\n%s```\n", e.Title, text)
	}
}

// fill breaks the lines of a text that are longer than 120 columns, between words and outside of code.
func fill(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		indent := ""
		if strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "  ") {
			indent = "  "
		}
		columns := 0
		for i, word := range wordsOf(strings.TrimSuffix(line, "\n")) {
			size := utf8.RuneCountInString(word)
			switch {
			case i == 0:
			case columns+1+size > 120:
				out.WriteString("\n" + indent)
				columns = len(indent)
			default:
				out.WriteString(" ")
				columns++
			}
			out.WriteString(word)
			columns += size
		}
		if strings.HasSuffix(line, "\n") {
			out.WriteString("\n")
		}
	}
	return out.String()
}

// wordsOf splits a line at its spaces, except those in code.
func wordsOf(line string) []string {
	var all []string
	begin, code := 0, false
	for i, c := range line {
		switch {
		case c == '`':
			code = !code
		case c == ' ' && !code && strings.TrimSpace(line[:i]) != "":
			all = append(all, line[begin:i])
			begin = i + 1
		}
	}
	return append(all, line[begin:])
}

func rules(p sdk.Parameter) string {
	var all []string
	for _, v := range p.Validations {
		switch v.Type {
		case sdk.ValidationRequired:
			all = append(all, "required")
		case sdk.ValidationInclusion:
			all = append(all, "one of "+strings.ReplaceAll(v.Value, ",", ", "))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, "; ") + ")"
}
