package spec_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/spec"
)

const spliced = `# shop
version: "2.2"
pipelines:
  # the first one
  - id: first
    connectors:
      - {id: in, type: source, plugin: file, settings: {path: a}}
      - {id: out, type: destination, plugin: log}

  - id: orders # of the shop
    description: old
    connectors:
      # where from
      - id: in
        type: source
        plugin: file
        settings:
          path: old.txt # moved in May
# a comment without indentation
      - {id: out, type: destination, plugin: log}
    processors:
      - id: gone
        plugin: filter
        condition: |
          {{ eq .Metadata.a "b" }}

  # the last one
  - id: last
    connectors:
      - {id: in, type: source, plugin: file, settings: {path: c}}
      - {id: out, type: destination, plugin: log}
`

// TestSplice puts an older version of a pipeline into its file.
func TestSplice(t *testing.T) {
	changed := func(t *testing.T, file string, change func(p *spec.Pipeline)) *spec.Pipeline {
		t.Helper()
		for _, parsed := range spec.ParseFile("", []byte(file)).Pipelines {
			if p := parsed.Pipeline; p.ID == "orders" {
				change(&p)
				spec.Normalize(&p)
				return &p
			}
		}
		t.Fatal("there is no pipeline orders")
		return nil
	}
	back := func(p *spec.Pipeline) {
		p.Description = ""
		p.Connectors[0].Settings["path"] = "new.txt"
		p.Processors = nil
		p.DeadLetterQueue.WindowSize = 0
	}
	for name, c := range map[string]struct {
		file    string
		change  func(p *spec.Pipeline)
		keeps   []string // lines
		without []string
		refuses string
	}{
		"one of three": {spliced, back,
			[]string{"# shop", "  # the first one", "  - id: orders # of the shop", "      # where from",
				"          path: new.txt # moved in May", "  # the last one", "      window-size: 0"},
			[]string{"old", "gone", "status"}, ""},
		"nothing changes": {spliced, func(*spec.Pipeline) {}, []string{"          path: old.txt # moved in May"}, nil,
			""},
		"a connector more": {spliced, func(p *spec.Pipeline) {
			p.Connectors = append(p.Connectors, spec.Connector{ID: "more", Type: spec.TypeDestination, Plugin: "log"})
		}, []string{"      - id: more", "          path: old.txt # moved in May"}, nil, ""},
		"CRLF": {strings.ReplaceAll(spliced, "\n", "\r\n"), back,
			[]string{"          path: new.txt # moved in May\r"}, []string{"old"}, ""},
		"several documents": {spliced + "---\n# second\n" + strings.ReplaceAll(spliced, "id: ", "id: x"),
			back, []string{"# second", "  - id: xorders # of the shop"}, nil, ""},
		"the last line has no end": {strings.TrimSuffix(`version: "2.2"
pipelines:
- id: orders
  connectors:
  - {id: in, type: source, plugin: file, settings: {path: old.txt}}
  - {id: out, type: destination, plugin: log}
`, "\n"), func(p *spec.Pipeline) { p.Connectors[0].Settings["path"] = "new.txt" },
			[]string{"    - {id: out, type: destination, plugin: log}"}, []string{"old"}, ""},
		"anchors": {strings.Replace(spliced, "settings:\n          path: old.txt",
			"settings: &s\n          path: old.txt", 1),
			back, nil, nil, "anchors"},
		"braces": {`{version: "2.2", pipelines: [{id: orders, connectors: [{id: in, type: source, plugin: file, ` +
			`settings: {path: a}}, {id: out, type: destination, plugin: log}]}]}`,
			back, nil, nil, "in braces"},
		"an error": {spliced + "  - id: orders\n", back, nil, nil, "has an error"},
	} {
		t.Run(name, func(t *testing.T) {
			source := c.file
			if name == "an error" {
				source = spliced
			}
			p := changed(t, source, c.change)
			got, err := spec.Splice([]byte(c.file), p)
			if c.refuses != "" {
				if err == nil || !strings.Contains(err.Error(), c.refuses) {
					t.Fatalf("error %v, want %q", err, c.refuses)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(string(got), "\n")
			for _, want := range c.keeps {
				found := false
				for _, line := range lines {
					found = found || strings.TrimSuffix(line, "\r") == strings.TrimSuffix(want, "\r")
				}
				if !found {
					t.Errorf("line %q is missing:\n%s", want, got)
				}
			}
			for _, gone := range c.without {
				if strings.Contains(string(got), gone) {
					t.Errorf("%q is still there:\n%s", gone, got)
				}
			}
			if name == "CRLF" && strings.Count(string(got), "\n") != strings.Count(string(got), "\r\n") {
				t.Errorf("the ends of lines are mixed: %q", got)
			}
		})
	}
}

// TestSpliceOfItself puts each pipeline of the good files into its file, unchanged: the file declares the same.
func TestSpliceOfItself(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	kept := 0
	for _, path := range files {
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before := spec.ParseFile("", file).Pipelines
		for _, parsed := range before {
			got, err := spec.Splice(file, &parsed.Pipeline)
			if err != nil {
				t.Logf("%s: %s: %v", path, parsed.Pipeline.ID, err)
				continue
			}
			kept++
			for i, again := range spec.ParseFile("", got).Pipelines {
				if !spec.Equal(&again.Pipeline, &before[i].Pipeline) {
					t.Errorf("%s: %s changes %s:\n%s", path, parsed.Pipeline.ID, again.Pipeline.ID, got)
				}
			}
		}
	}
	if kept == 0 {
		t.Error("every file is refused")
	}
}
