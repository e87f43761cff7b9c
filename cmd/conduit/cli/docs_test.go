package cli

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/cmd/conduit/docs"
	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

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
	p := &Program{Stdout: io.Discard, Stderr: os.Stderr, Version: "v1.2.3", Site: docs.Of}
	if code := p.Run(context.Background(), root(p), []string{"docs", dir}); code != 0 {
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
		if page := site["connector-"+c.Name+".html"]; !strings.Contains(page, "All settings as a ") {
			t.Errorf("connector %s has no page with its settings", c.Name)
		}
	}
	for _, c := range processor.Builtins() {
		if site["processor-"+c.Name+".html"] == "" {
			t.Errorf("processor %s has no page", c.Name)
		}
	}
	for _, s := range config.Settings() {
		if !strings.Contains(site["settings.html"], "<code>"+s.Key+"</code></td><td><code>"+s.Env()+"</code>") {
			t.Errorf("setting %s is not in the reference", s.Key)
		}
	}
	for page, want := range map[string]string{
		"commands.html": "conduit pipelines rollback", "pipeline-file.html": "<td><code>max-silence</code></td>", "moving.html": "independent implementation",
		"operating.html": `href="backup.html"`, "llms.txt": "- [Operating](operating.md): ", "index.html": "conduit v1.2.3", "index.js": `"Name":"connector-kafka"`,
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

// The pages that people wrote are all in the site. That of the settings is generated there.
func TestDocsAreComplete(t *testing.T) {
	site := docsSite(t)
	left := []string{"agent/README.md", "reconcile/README.md", "agent/config/README.md", "CONTRIBUTING.md", "agent/agenttest/README.md", "cmd/README.md", "pipelines/README.md"}
	var all strings.Builder
	for name, text := range site {
		if strings.HasSuffix(name, ".md") {
			all.WriteString(text)
		}
	}
	err := filepath.WalkDir("../../..", func(path string, d os.DirEntry, err error) error {
		path = strings.TrimPrefix(path, "../../../")
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" || strings.Contains(path, "testdata/") || strings.Contains(path, "template/") || slices.Contains(left, path) {
			return err
		}
		text, err := os.ReadFile("../../../" + path)
		if err == nil && !strings.Contains(all.String(), string(text)) {
			t.Errorf("%s is not in the site", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The served pages are the pages in the repository.
func TestGatheredPagesAreCurrent(t *testing.T) {
	packed, err := os.Open(filepath.Join("..", "docs", "pages.tar.zst"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	plain, err := zstd.NewReader(packed, 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	pages := 0
	for files := tar.NewReader(plain); ; pages++ {
		f, err := files.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join("../../..", f.Name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s has changed: run just generate", f.Name)
		}
	}
	if pages == 0 {
		t.Error("no pages are gathered")
	}
}
