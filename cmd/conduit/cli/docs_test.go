package cli_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"html"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api/docsearch"
	"github.com/conduit-agent/conduit/cmd/conduit/cli"
	"github.com/conduit-agent/conduit/cmd/conduit/docs"
	"github.com/conduit-agent/conduit/cmd/conduit/tools"
	"github.com/conduit-agent/conduit/plugins/builtin"
)

var update = flag.Bool("update", false, "write START.md from README.md")

// docsSite returns the files of the site that 'conduit docs' writes.
func docsSite(t *testing.T) map[string]string {
	t.Helper()
	files, err := writtenSite()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var writtenSite = sync.OnceValues(func() (map[string]string, error) {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	p := &cli.Program{Stdout: io.Discard, Stderr: os.Stderr, Version: "v1.2.3",
		Parts: cli.Parts{Site: docs.Site, Docs: tools.Docs}}
	if code := cli.Run(context.Background(), p, []string{"docs", dir}); code != 0 {
		return nil, fmt.Errorf("conduit docs ends with %d", code)
	}
	entries, err := os.ReadDir(dir)
	files := map[string]string{}
	for _, e := range entries {
		text, failed := os.ReadFile(filepath.Join(dir, e.Name()))
		err = errors.Join(err, failed)
		files[e.Name()] = string(text)
	}
	return files, err
})

// TestDocs checks the site as a whole: the set of pages, that every link has a target, and that nothing is requested
// from other sites.
func TestDocs(t *testing.T) {
	site := docsSite(t)
	for _, c := range builtin.All() {
		if page := site["connector-"+c.Name+".html"]; !strings.Contains(page, "All source "+
			"settings") && !strings.Contains(page, "All destination settings") {
			t.Errorf("connector %s has no page with its settings", c.Name)
		}
	}
	for _, c := range processors.All() {
		if site["processor-"+c.Name+".html"] == "" {
			t.Errorf("processor %s has no page", c.Name)
		}
	}
	for _, s := range config.Settings() {
		if !strings.Contains(site["settings.html"], "<code>"+s.Key+"</code></td>\n<td><code>"+s.Env()+"</code>") {
			t.Errorf("setting %s is not in the reference", s.Key)
		}
	}
	for page, want := range map[string]string{
		"commands.html": "conduit pipelines rollback", "pipeline-file.html": "<td><code>max-silence</code></td>",
		"moving.html":    "independent implementation",
		"operating.html": `href="backup.html"`, "llms.txt": "- [Operating](operating.md): ",
		"index.html": "conduit v1.2.3", "index.js": `"name":"connector-kafka"`,
	} {
		if !strings.Contains(site[page], want) {
			t.Errorf("%s lacks %s", page, want)
		}
	}
	for name, text := range site {
		if strings.HasSuffix(name, ".html") {
			checkPage(t, site, name, text)
		}
	}
	for _, m := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(site["llms.txt"], -1) {
		if site[m[1]] == "" {
			t.Errorf("llms.txt names %s, which is not there", m[1])
		}
	}
}

var (
	fenced = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	linked = regexp.MustCompile(`\]\(([^()\s]*)\)`)
)

// TestLinksOfPagesCanBeRead checks that 'conduit docs read' can print the target of every link, as it prints the links.
func TestLinksOfPagesCanBeRead(t *testing.T) {
	site, links := docsSite(t), 0
	for name, text := range site {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, m := range linked.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			page, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(page, "://") || page == "" {
				continue
			}
			links++
			text := site[strings.TrimSuffix(strings.TrimSuffix(page, ".html"), ".md")+".md"]
			if section, _ := docsearch.SectionOf(text, anchor); text == "" || anchor != "" && section == "" {
				t.Errorf("%s links to %s, which is not there", name, m[1])
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links were found", links)
	}
	var out bytes.Buffer
	p := &cli.Program{Stdout: &out, Stderr: &out, Version: "v1.2.3",
		Parts: cli.Parts{Site: docs.Site, Docs: tools.Docs}}
	if code := cli.Run(t.Context(), p, []string{"docs", "read", "reload.md#who-owns-a-pipeline"}); code != 0 ||
		!strings.HasPrefix(out.String(), "## Who owns a pipeline\n") {
		t.Errorf("exit code %d: %s", code, out.String())
	}
}

var (
	references = regexp.MustCompile(`<[a-z]+[^>]*? (href|src)="([^"]*)"`)
	inlined    = regexp.MustCompile(`<script>|<style|<[a-z]+[^>]* (?:style|on[a-z]+)="`)
)

// checkPage follows the links of a page.
func checkPage(t *testing.T, site map[string]string, name, text string) {
	t.Helper()
	if found := inlined.FindString(text); found != "" {
		t.Errorf("%s has %s, which its content security policy forbids", name, found)
	}
	if n := strings.Count(text, "<h1"); n != 1 {
		t.Errorf("%s has %d titles", name, n)
	}
	for _, m := range references.FindAllStringSubmatch(text, -1) {
		attribute, to := m[1], m[2]
		if strings.Contains(to, "://") {
			if attribute == "src" || strings.HasPrefix(m[0], "<link") {
				t.Errorf("%s requests %s", name, to)
			}
			continue
		}
		file, fragment, _ := strings.Cut(to, "#")
		if file == "" {
			file = name
		}
		target, ok := site[file]
		if !ok || fragment != "" && !strings.Contains(target, `id="`+fragment+`"`) {
			t.Errorf("%s links to %s, which is not there", name, to)
		}
	}
}

// The pages that people wrote are all in the site. That of the settings is generated there, and no package can embed
// those at the top of the repository.
func TestDocsAreComplete(t *testing.T) {
	site := docsSite(t)
	left := []string{"agent/README.md", "agent/config/README.md", "agent/agenttest/README.md", "cmd/README.md",
		"pipelines/README.md",
		"reconcile/README.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"}
	var all strings.Builder
	for name, text := range site {
		if strings.HasSuffix(name, ".md") {
			all.WriteString(text)
		}
	}
	// The links of the site lead to its own pages.
	plain := func(text string) string {
		return regexp.MustCompile("!?\\[((?:[^\\[\\]`]|`[^`\n]*`)*)\\]\\([^()\\s]*\\)").ReplaceAllString(text, "$1")
	}
	pages := plain(all.String())
	err := filepath.WalkDir("../../..", func(path string, d os.DirEntry, err error) error {
		path = strings.TrimPrefix(path, "../../../")
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" || strings.Contains(path, "testdata/") ||
			strings.Contains(path, "template/") || slices.Contains(left, path) {
			return err
		}
		text, err := os.ReadFile("../../../" + path)
		if err == nil && !strings.Contains(pages, plain(string(text))) {
			t.Errorf("%s is not in the site", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// START.md is a part of the README of the repository, which no package can embed. TestStartPage writes it with -update.
func TestStartPage(t *testing.T) {
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "\n## The first five minutes\n")
	section, _, ended := strings.Cut(section, "\n## ")
	if !ended {
		t.Fatal("README.md has no section \"The first five minutes\"")
	}
	want := "# The first five minutes\n" + regexp.MustCompile(`\]\(([a-z])`).ReplaceAllString(section, "](../../../$1")
	const page = "../docs/START.md"
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != want {
		t.Errorf("%s is not the section of README.md (%v); go test -run TestStartPage -update writes it", page, err)
	}
}

// Markup in names and texts is shown, and not interpreted.
func TestMarkupInPagesIsText(t *testing.T) {
	const markup = "v1\n\n<div onclick=\"x\">\n\n<b>bold</b> ![image](x.png) [script](javascript:alert(1))\n"
	command := &ffcli.Command{Subcommands: []*ffcli.Command{{Name: "<i>"}, {Name: "`a` [b](c.md)"}, {Name: "a b"}}}
	site, err := docs.Site(command, markup, func(*ffcli.Command) string { return "<pre>\n" })()
	if err != nil {
		t.Fatal(err)
	}
	commands := string(site["commands.html"])
	// without the headers
	pages := strings.ReplaceAll(string(site["index.html"])+commands, html.EscapeString(markup), "")
	for _, tag := range []string{"<div onclick", "<b>bold", "<img", "javascript:", "<i>"} {
		if strings.Contains(pages, tag) {
			t.Errorf("the pages have %s", tag)
		}
	}
	for _, want := range []string{
		`<h2 id="conduit-i">conduit &lt;i&gt;</h2>`, `<h2 id="conduit-a-b">`, `<h2 id="conduit-a-b-1">`,
		`<pre tabindex="0"><code>&lt;pre&gt;`, `&lt;div onclick=&quot;x&quot;&gt;`,
		`&lt;b&gt;bold&lt;/b&gt; image <a href="">script</a>`,
	} {
		if !strings.Contains(pages, want) {
			t.Errorf("the pages lack %s", want)
		}
	}
}
