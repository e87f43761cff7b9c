//go:build minimal

package api

import "net/http"

// serveProfile answers that a minimal build has no profiles: they take 0.3 MB.
func serveProfile(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "this build has no profiles; build it without -tags minimal", http.StatusNotImplemented)
}
