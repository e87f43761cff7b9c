package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/spec"
)

// A rollback of a pipeline that a file declares is written to the file, and leaves the rest of the file as it is. A
// file whose rest cannot be preserved is not changed.
func TestRollbackWritesTheFile(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	file := w.Path("pipelines/shop.yaml")
	write := func(content string) {
		t.Helper()
		w.Save("shop.yaml", content)
		if err := w.Files.Reload(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	}
	const other = `
  # the other one
  - id: other
    status: stopped
    connectors:
      - {id: in, type: source, plugin: generator, settings: {rate: 1, format.type: raw}}
      - {id: out, type: destination, plugin: log}
`
	text := func(message string) string {
		return "# shop\nversion: \"2.2\"\npipelines:\n  - id: p\n    status: stopped\n    connectors:\n" +
			"      - {id: in, type: source, plugin: generator, settings: {rate: 1, format.type: raw}}\n" +
			"      - id: out\n        type: destination\n        plugin: log\n        settings:\n" +
			"          message: " + message + " # what it says\n" + other
	}
	write(text("one"))
	write(text("two"))
	if body := w.Do("POST", "/v1/pipelines/p/export?revision=1", "").Body; !strings.Contains(body, "message: one") {
		t.Errorf("revision 1 is %s", body)
	}
	if got := w.Do("POST", "/v1/pipelines/p/export?revision=9", ""); got.Status != http.StatusNotFound {
		t.Errorf("a revision that is not there: %d %s", got.Status, got.Body)
	}
	if got := w.Do("POST", "/v1/pipelines/p/rollback", `{"revision":1}`); got.Status != http.StatusConflict ||
		!strings.Contains(got.Body, `\"file\": true`) {
		t.Errorf("without being asked to write: %d %s", got.Status, got.Body)
	}
	w.Must("POST", "/v1/pipelines/p/rollback", `{"revision":1,"file":true}`, nil)
	content, err := os.ReadFile(file)
	if err != nil || string(content) != text("one") {
		t.Errorf("the file is\n%s, %v", content, err)
	}
	if s := w.status("p"); s.Generation != 3 || s.Owner.Kind != spec.OwnerFile || s.Owner.Path != "shop.yaml" {
		t.Errorf("declared is %+v", s)
	}

	// A file whose rest cannot be preserved is not changed.
	real := filepath.Join(w.Dir, "real.yaml")
	for name, prepare := range map[string]func() string{
		"a link": func() string {
			if err := errors.Join(os.Rename(file, real), os.Symlink(real, file)); err != nil {
				t.Fatal(err)
			}
			return "it is a symbolic link"
		},
		"an anchor": func() string {
			write(strings.Replace(text("three"), "id: p\n", "id: &id p\n", 1))
			return "anchors"
		},
		"an error": func() string {
			write(text("three") + "  - id: wrong\n")
			return "has an error"
		},
	} {
		write(text("three"))
		why := prepare()
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got := w.Do("POST", "/v1/pipelines/p/rollback", `{"revision":2,"file":true}`)
		if got.Status != http.StatusBadRequest || !strings.Contains(got.Body,
			why) || !strings.Contains(got.Body, "pipeline.file_not_written") {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
		}
		if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
			t.Errorf("%s: the file has changed: %s, %v", name, after, err)
		}
	}
	if left, err := filepath.Glob(w.Path("pipelines/.*")); err != nil || len(left) > 0 {
		t.Errorf("drafts are left: %v, %v", left, err)
	}

	// A revision without a declaration says why it has none.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := w.Files.Reload(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	history, err := w.Store.History(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	write(text("four"))
	if got := w.Do("POST", "/v1/pipelines/p/rollback", fmt.Sprintf(`{"revision":%d,"file":true}`,
		len(history))); got.Status != http.StatusNotFound || !strings.Contains(got.Body,
		`declares nothing: its action is \"withdraw\"`) {
		t.Errorf("a withdrawal: %d %s", got.Status, got.Body)
	}

	// A pipeline of the API has no file.
	w.GenerateOverAPI("q")
	if got := w.Do("POST", "/v1/pipelines/q/rollback?live",
		`{"revision":1,"file":true}`); got.Status != http.StatusBadRequest ||
		!strings.Contains(got.Body, "owned by the API") {
		t.Errorf("a pipeline of the API: %d %s", got.Status, got.Body)
	}
}
