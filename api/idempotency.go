package api

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/api/rest"
)

const (
	answersKept = 1000
	answersFor  = 24 * time.Hour
	maxKey      = 255
)

// answers remembers what requests with an Idempotency-Key were answered, so that a
// client that did not get the answer can ask again without doing it twice.
type answers struct {
	mu    sync.Mutex
	byKey map[string]*remembered // guarded by mu
	order []*remembered          // oldest first; guarded by mu
}

// remembered is an answer, or one to come.
type remembered struct {
	key     string
	request [sha256.Size]byte
	at      time.Time
	done    chan struct{} // closed when the rest is set

	kept   bool // false: the request may be tried again
	status int
	header http.Header
	body   []byte
}

// once has handle answer r, unless it was answered before.
func (a *answers) once(w http.ResponseWriter, r *http.Request, fail func(error), handle func(http.ResponseWriter, *http.Request)) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" || r.Method != http.MethodPost {
		handle(w, r)
		return
	}
	if len(key) > maxKey {
		fail(fieldError(rest.ReasonInvalid, "Idempotency-Key", "the Idempotency-Key is too long"))
		return
	}
	body, err := readBody(w, r)
	if err != nil {
		fail(err)
		return
	}
	if r.Body = http.NoBody; len(body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	sum := sha256.Sum256(append([]byte(r.Method+" "+r.URL.RequestURI()+"\n"+bearer(r)+"\n"), body...))
	for {
		answer, mine := a.claim(key, sum)
		switch {
		case answer.request != sum:
			fail(rest.Errorf(rest.InvalidArgument, rest.ReasonKeyReused, "the Idempotency-Key was used for another request").Suggest("use a new key for each request"))
			return
		case mine:
			a.record(answer, w, r, handle)
			return
		}
		select {
		case <-answer.done:
		case <-r.Context().Done():
			return
		}
		if answer.kept {
			answer.replay(w)
			return
		}
	}
}

// claim returns what is remembered under the key, and whether it is new.
func (a *answers) claim(key string, request [sha256.Size]byte) (*remembered, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.order) > 0 && (len(a.order) >= answersKept || time.Since(a.order[0].at) > answersFor) {
		if a.byKey[a.order[0].key] == a.order[0] {
			delete(a.byKey, a.order[0].key)
		}
		a.order = a.order[1:]
	}
	if known := a.byKey[key]; known != nil {
		return known, false
	}
	fresh := &remembered{key: key, request: request, at: time.Now(), done: make(chan struct{})}
	if a.byKey == nil {
		a.byKey = map[string]*remembered{}
	}
	a.byKey[key] = fresh
	a.order = append(a.order, fresh)
	return fresh, true
}

// record answers r and remembers the answer, unless it is one that may be different the
// next time.
func (a *answers) record(m *remembered, w http.ResponseWriter, r *http.Request, handle func(http.ResponseWriter, *http.Request)) {
	copied := &copier{ResponseWriter: w}
	defer func() {
		m.status, m.header, m.body = copied.status, w.Header().Clone(), copied.body.Bytes()
		m.kept = m.status >= 200 && m.status < 500 && m.status != http.StatusTooManyRequests
		if !m.kept {
			a.mu.Lock()
			delete(a.byKey, m.key)
			a.mu.Unlock()
		}
		close(m.done)
	}()
	handle(copied, r)
}

func (m *remembered) replay(w http.ResponseWriter) {
	for _, name := range []string{"Content-Type", "Cache-Control", "ETag", rest.HeaderGeneration} {
		if v := m.header.Values(name); len(v) > 0 {
			w.Header()[http.CanonicalHeaderKey(name)] = v
		}
	}
	w.Header().Set("Idempotent-Replayed", "true")
	w.WriteHeader(m.status)
	_, _ = w.Write(m.body) // nobody is left to tell
}

// copier keeps a copy of the answer.
type copier struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (c *copier) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (c *copier) Write(b []byte) (int, error) {
	c.body.Write(b)
	return c.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (c *copier) Unwrap() http.ResponseWriter { return c.ResponseWriter }
