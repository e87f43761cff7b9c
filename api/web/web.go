// Package web is the web UI: the files of the page, embedded in the binary. The page uses the web platform itself, with
// ES modules that the browser loads without a build step (assets/ui.js has the signals and the renderer), and gets all
// data from the REST API.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed assets
var assets embed.FS

// ContentSecurityPolicy lets the page load scripts, styles and images from the agent only,
// connect to the agent only, and make no markup from text.
const ContentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; " +
	"trusted-types 'none'"

var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

// file is a file of the page in the form that is sent.
type file struct {
	media       string
	tag         string // ETag, quoted
	plain, gzip []byte
}

// all returns the files by name. They are prepared when the page is first requested.
var all = sync.OnceValue(func() map[string]*file { return read(assets) })

// read returns the files of the page by name. The binaries of a release contain them compressed.
func read(from fs.ReadDirFS) map[string]*file {
	out := map[string]*file{}
	entries, err := from.ReadDir("assets")
	if err != nil {
		panic(err) // they are part of the binary
	}
	for _, e := range entries {
		content, err := fs.ReadFile(from, "assets/"+e.Name())
		if err != nil {
			panic(err)
		}
		f := &file{media: mediaTypes[path.Ext(e.Name())]}
		if bytes.HasPrefix(content, gzipMagic) {
			f.plain, f.gzip = decompress(content), content
		} else {
			f.plain, f.gzip = content, compress(content)
		}
		sum := sha256.Sum256(f.plain)
		f.tag = `"` + hex.EncodeToString(sum[:8]) + `"`
		out[e.Name()] = f
	}
	return out
}

// gzipMagic begins a compressed file. No text begins with it.
var gzipMagic = []byte{0x1f, 0x8b}

func decompress(packed []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic(err) // it is part of the binary
	}
	content, err := io.ReadAll(r)
	if err != nil {
		panic(err)
	}
	return content
}

func compress(content []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid
	_, err := w.Write(content)
	if cerr := w.Close(); err != nil || cerr != nil {
		panic(fmt.Sprintf("cannot compress in memory: %v %v", err, cerr))
	}
	return b.Bytes()
}

// Serve answers with the file of this name, index.html for an empty one, compressed when
// the client accepts that. It reports whether there is such a file. The files hold no data
// of the agent, so they need no token.
func Serve(w http.ResponseWriter, r *http.Request, name string) bool {
	if name == "" {
		name = "index.html"
	}
	f := all()[name]
	if f == nil {
		return false
	}
	header := w.Header()
	header.Set("Content-Security-Policy", ContentSecurityPolicy)
	header.Set("Content-Type", f.media)
	header.Set("Cache-Control", "no-cache") // cached, and revalidated with the ETag
	header.Set("ETag", f.tag)
	header.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("If-None-Match"), f.tag) {
		w.WriteHeader(http.StatusNotModified)
		return true
	}
	content := f.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		header.Set("Content-Encoding", "gzip")
		content = f.gzip
	}
	header.Set("Content-Length", fmt.Sprint(len(content)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(content) // the client has left
	}
	return true
}

// Style returns the style sheet of the page.
func Style() []byte { return all()["style.css"].plain }
