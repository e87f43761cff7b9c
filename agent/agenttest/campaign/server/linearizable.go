package server

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// Operation is an operation on a key that changes by compare-and-swap.
type Operation struct {
	Key      string `json:"key"`
	Client   int    `json:"client"`
	Call     int64  `json:"call"` // start, and Return the time of the answer, by a clock that all clients share
	Return   int64  `json:"return"`
	Kind     string `json:"kind"`     // applied, conflict, unknown or read
	Expected uint64 `json:"expected"` // of a write: the revision that it replaces
	Stamp    string `json:"stamp"`    // of the value written or read; unique to a write and its retries
	Revision uint64 `json:"revision"` // of the write if applied, else the current one; 0: not reported
}

// History is a record of the operations of clients on keys. Its methods may be called concurrently.
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

// Linearizable reports whether an order of all operations explains their results, with each operation taking effect
// between its start and its end. The verdict includes the number of operations.
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
