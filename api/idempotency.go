package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"net/http"
	"sync"

	"github.com/conduit-agent/conduit/api/guard"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

const maxKey = 255 // bytes of an Idempotency-Key

// Answers stores the answers to requests with an Idempotency-Key.
type Answers interface {
	// Answer returns the answer under the key, nil if there is none.
	Answer(ctx context.Context, key string) (*spec.Answer, error)
	// KeepAnswer stores the answer for a day. It survives a restart of the agent.
	KeepAnswer(ctx context.Context, key string, a *spec.Answer) error
}

// repeats performs each request once. Answers and Log must be set, before first use.
type repeats struct {
	Answers Answers
	Log     *slog.Logger

	mu   sync.Mutex
	keys map[string]chan struct{} // keys of requests in progress, guarded by mu; closed when the answer is stored
}

// claim returns nil if the caller now owns the key until it calls release. If another request owns the key, claim
// returns a channel that is closed when the key is released.
func (q *repeats) claim(key string) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if done := q.keys[key]; done != nil {
		return done
	}
	if q.keys == nil {
		q.keys = map[string]chan struct{}{}
	}
	q.keys[key] = make(chan struct{})
	return nil
}

func (q *repeats) release(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	close(q.keys[key])
	delete(q.keys, key)
}

// Once lets handle answer r, unless it was answered before: a client that did not get the answer can repeat the request
// without performing it twice.
func (q *repeats) Once(w http.ResponseWriter, r *http.Request, handle func(http.ResponseWriter, *http.Request)) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" || r.Method != http.MethodPost {
		handle(w, r)
		return
	}
	if len(key) > maxKey {
		fail(q.Log, w, r, fieldError(rest.ReasonInvalid, "Idempotency-Key", "the Idempotency-Key is too long"))
		return
	}
	body, err := readBody(w, r)
	if err != nil {
		fail(q.Log, w, r, err)
		return
	}
	if r.Body = http.NoBody; len(body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	for done := q.claim(key); done != nil; done = q.claim(key) {
		select {
		case <-done:
		case <-r.Context().Done():
			return
		}
	}
	defer q.release(key)
	sum := sha256.Sum256(append([]byte(r.Method+" "+r.URL.RequestURI()+"\n"+guard.Bearer(r)+"\n"), body...))
	known, err := q.Answers.Answer(r.Context(), key)
	switch {
	case err != nil:
		fail(q.Log, w, r, err)
	case known == nil:
		q.remember(w, r, key, sum[:], handle)
	case !bytes.Equal(known.Request, sum[:]):
		fail(q.Log, w, r, rest.Errorf(rest.InvalidArgument, rest.ReasonKeyReused,
			"the Idempotency-Key was used for another request").Suggest("use a new key for each request"))
	default:
		replay(w, known)
	}
}

// remember answers r. It stores the answer before the client gets it, unless the answer may be different the next time.
func (q *repeats) remember(
	w http.ResponseWriter, r *http.Request, key string, request []byte, handle func(http.ResponseWriter, *http.Request),
) {
	buffered := &bufferedWriter{ResponseWriter: w}
	handle(buffered, r)
	if buffered.status >= 200 && buffered.status < 500 && buffered.status != http.StatusTooManyRequests {
		a := &spec.Answer{Request: request, Status: buffered.status, Header: map[string][]string{},
			Body: buffered.body.Bytes()}
		for _, name := range []string{"Content-Type", "Cache-Control", "ETag", rest.HeaderGeneration} {
			if values := w.Header().Values(name); len(values) > 0 {
				a.Header[http.CanonicalHeaderKey(name)] = values
			}
		}
		if err := q.Answers.KeepAnswer(context.WithoutCancel(r.Context()), key, a); err != nil {
			q.Log.Error("cannot save the response to a request; a repeated request would be executed again", "path",
				r.URL.EscapedPath(), "err", err)
		}
	}
	if buffered.status != 0 {
		w.WriteHeader(buffered.status)
		_, _ = w.Write(buffered.body.Bytes()) // the client is gone
	}
}

func replay(w http.ResponseWriter, a *spec.Answer) {
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	w.Header().Set("Idempotent-Replayed", "true")
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // the client is gone
}

// bufferedWriter holds an answer back.
type bufferedWriter struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (h *bufferedWriter) WriteHeader(status int) { h.status = status }

// Write implements http.ResponseWriter.
func (h *bufferedWriter) Write(b []byte) (int, error) { return h.body.Write(b) }

// Unwrap lets http.ResponseController reach the connection.
func (h *bufferedWriter) Unwrap() http.ResponseWriter { return h.ResponseWriter }
