package web_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/conduit-agent/conduit/api/web"
)

// The limits of the page, in bytes sent.
const (
	maxFirstLoad = 40 << 10
	maxAll       = 80 << 10
)

func fetch(t *testing.T, name string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/ui/"+name, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	if !web.Serve(w, r, name) {
		t.Fatalf("there is no file %q", name)
	}
	return w
}

var staticImport = regexp.MustCompile(`(?m)^(?:import|export) [^;]*from '\./([^']+)';`)

// firstLoad returns the files that the page needs before it shows anything.
func firstLoad(t *testing.T) []string {
	t.Helper()
	names, seen := []string{"", "style.css", "icon.svg", "app.js"}, map[string]bool{}
	for i := 0; i < len(names); i++ {
		seen[names[i]] = true
		for _, m := range staticImport.FindAllStringSubmatch(fetch(t, names[i]).Body.String(), -1) {
			if !seen[m[1]] {
				names, seen[m[1]] = append(names, m[1]), true
			}
		}
	}
	return names
}

func TestThePageIsSmall(t *testing.T) {
	first, total := 0, 0
	names := firstLoad(t)
	if len(names) < 8 {
		t.Fatalf("the first load is only %v: are imports still found?", names)
	}
	for _, name := range names {
		first += fetch(t, name, "Accept-Encoding", "gzip").Body.Len()
	}
	entries, err := os.ReadDir("assets")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		total += fetch(t, e.Name(), "Accept-Encoding", "gzip").Body.Len()
	}
	t.Logf("first load %d bytes, everything %d", first, total)
	if first > maxFirstLoad || total > maxAll {
		t.Errorf("first load %d bytes of %d, everything %d of %d", first, maxFirstLoad, total, maxAll)
	}
}

func TestFilesAreServedCompressedAndKept(t *testing.T) {
	entries, err := os.ReadDir("assets")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		want, err := os.ReadFile("assets/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if plain := fetch(t, e.Name()); plain.Body.String() != string(want) {
			t.Errorf("%s is served with other content", e.Name())
		}
		w := fetch(t, e.Name(), "Accept-Encoding", "br, gzip")
		if w.Header().Get("Content-Encoding") != "gzip" || w.Header().Get("Content-Type") == "" {
			t.Errorf("headers of %s are %v", e.Name(), w.Header())
		}
		unpacked, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		if content, err := io.ReadAll(unpacked); string(content) != string(want) || err != nil {
			t.Errorf("%s is compressed with other content, error %v", e.Name(), err)
		}
		again := fetch(t, e.Name(), "If-None-Match", w.Header().Get("ETag"))
		if again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("asked for %s with its tag, the answer is %d with %d bytes", e.Name(), again.Code,
				again.Body.Len())
		}
	}
}

// The policy allows only the sources that the page needs, and the page needs no more: no script or style in the markup,
// nothing from other hosts.
func TestThePolicyHolds(t *testing.T) {
	policy := fetch(t, "").Header().Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "require-trusted-types-for 'script'", "frame-ancestors 'none'",
		"base-uri 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy lacks %s: %s", want, policy)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Errorf("the policy allows too much: %s", policy)
	}
	entries, err := os.ReadDir("assets")
	if err != nil {
		t.Fatal(err)
	}
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new ` +
		`Function|https?://(?:[^w]|w[^w])| style="`)
	for _, e := range entries {
		if found := forbidden.FindString(fetch(t, e.Name()).Body.String()); found != "" {
			t.Errorf("%s has %q", e.Name(), found)
		}
	}
}

func TestOtherNamesAreNotFiles(t *testing.T) {
	for _, name := range []string{"..", "../web.go", "assets", "app.js/", "nothing.js"} {
		if web.Serve(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil), name) {
			t.Errorf("%q is served", name)
		}
	}
}

// The binaries of a release contain the files compressed; they are served as if they were not.
func TestPackedFilesAreServedTheSame(t *testing.T) {
	plain := fetch(t, "app.js")
	packed := fstest.MapFS{"assets/app.js": {Data: fetch(t, "app.js", "Accept-Encoding", "gzip").Body.Bytes()}}
	web.Replace(t, packed)
	for _, encoding := range []string{"identity", "gzip"} {
		got := fetch(t, "app.js", "Accept-Encoding", encoding)
		body := got.Body.Bytes()
		if got.Header().Get("Content-Encoding") == "gzip" {
			r, err := gzip.NewReader(got.Body)
			if err != nil {
				t.Fatal(err)
			}
			if body, err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
		if string(body) != plain.Body.String() || got.Header().Get("ETag") != plain.Header().Get("ETag") {
			t.Errorf("with %s, %d bytes with the tag %s are served, not %d with %s", encoding, len(body),
				got.Header().Get("ETag"), plain.Body.Len(), plain.Header().Get("ETag"))
		}
	}
}
