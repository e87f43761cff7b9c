package server

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// Operation is one on a key that changes by compare-and-swap.
type Operation struct {
	Key      string `json:"key"`
	Client   int    `json:"client"`
	Call     int64  `json:"call"` // when it began, and Return when it was answered, by a clock that all clients share
	Return   int64  `json:"return"`
	Kind     string `json:"kind"`     // applied, conflict, unknown or read
	Expected uint64 `json:"expected"` // of a write: the revision that it replaces
	Stamp    string `json:"stamp"`    // of the value that is written, or was read; no two writes have the same, but tries of one
	Revision uint64 `json:"revision"` // of applied the write's, of conflict and read the present one; 0 of a conflict that does not say
}

// History is what clients did to keys. Its methods may be called concurrently.
type History struct {
	mu  sync.Mutex
	all []Operation // guarded by mu
}

// Add adds an operation.
func (h *History) Add(o Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, o)
}

// Linearizable reports whether there is an order of all operations that explains what they returned, and in which each
// takes effect between its begin and its end; with how many there are.
func (h *History) Linearizable(t testing.TB) (ok bool, verdict string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	var text bytes.Buffer
	for _, o := range h.all {
		if err := json.NewEncoder(&text).Encode(o); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(goServer(t, "linearizable"))
	cmd.Stdin = &text
	out, err := cmd.CombinedOutput()
	return err == nil, strings.TrimSpace(string(out))
}
