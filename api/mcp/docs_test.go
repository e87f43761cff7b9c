package mcp_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dop251/goja"
)

// TestSearch compares the tool with the script of the site.
func TestSearch(t *testing.T) {
	files, err := site()
	if err != nil {
		t.Fatal(err)
	}
	vm := goja.New()
	for _, script := range []string{"const window = {};", string(files["index.js"]), string(files["search.js"])} {
		if _, err := vm.RunString(script); err != nil {
			t.Fatal(err)
		}
	}
	s := served(t, map[string]any{"/docs/index.js": string(files["index.js"])})
	for _, query := range []string{"max-silence", "dead letters", "queries of hourly files",
		"how do I rotate a token zzqx", "how to", "zzqx kafka wwqy topic"} {
		vm.Set("query", query)
		want, err := vm.RunString(`findPages(window.conduitPages, query).map(
			(h) => [h.page.name, h.section.title || '', h.name || ''].join('|')).slice(0, 10).join('\n')`)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := use(t, s, "search_docs", map[string]any{"query": query, "limit": 10})
		var answer struct {
			Items []struct{ Page, Section, Name string }
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil && want.String() != "" {
			t.Fatalf("%q: %v in %s", query, err, text)
		}
		var got []string
		for _, i := range answer.Items {
			got = append(got, strings.Join([]string{i.Page, i.Section, i.Name}, "|"))
		}
		if strings.Join(got, "\n") != want.String() {
			t.Errorf("%q finds\n%s\nwant\n%s", query, strings.Join(got, "\n"), want)
		}
	}
}
