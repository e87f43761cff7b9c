package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/conduit-agent/conduit/api/client"
)

// maxResponse is the maximum size in bytes of a response of the API to a tool.
const maxResponse = 16 << 20

// inProcess returns a client that sends its requests to a handler of the same process, with the identity of the caller:
// its token and its connection.
func inProcess(api http.Handler, caller *http.Request) *client.Client {
	return &client.Client{URL: "http://" + caller.Host, HTTP: &http.Client{Transport: &transport{api, caller}}}
}

// transport implements http.RoundTripper.
type transport struct {
	api    http.Handler
	caller *http.Request
}

// RoundTrip implements http.RoundTripper. It returns when the response is complete, or when the connection is taken
// over.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context()) // which has the connection of the caller
	in.RequestURI, in.RemoteAddr, in.TLS = r.URL.RequestURI(), t.caller.RemoteAddr, t.caller.TLS
	in.Host = t.caller.Host
	in.Header.Del("Authorization")
	if token := t.caller.Header.Get("Authorization"); token != "" {
		in.Header.Set("Authorization", token)
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	defer in.Body.Close()
	w := &response{header: http.Header{}, status: http.StatusOK, over: make(chan *http.Response, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil { // the API answers for its own panics; this one only ends a response
				w.fail(errors.New("the response was aborted"))
			}
		}()
		t.api.ServeHTTP(w, in)
	}()
	select {
	case over := <-w.over:
		return over, nil
	case <-done:
	}
	select {
	case over := <-w.over:
		return over, nil
	default:
		return w.result(r)
	}
}

// response is a response in memory.
type response struct {
	over   chan *http.Response // gets the response with which the handler takes the connection over
	header http.Header

	mu      sync.Mutex
	status  int
	written bool
	sent    http.Header // the headers as they were when the status was written
	body    bytes.Buffer
	err     error
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.written {
		w.status, w.written, w.sent = status, true, w.header.Clone()
	}
}

// Write implements http.ResponseWriter.
func (w *response) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil && w.body.Len()+len(b) > maxResponse {
		w.err = errors.New("the answer is too large; ask for less")
	}
	if w.err != nil {
		return 0, w.err
	}
	return w.body.Write(b)
}

func (w *response) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

// Hijack implements http.Hijacker. The body of the response is the other end of the connection.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	here, there := net.Pipe()
	w.over <- &http.Response{StatusCode: w.status, Header: w.sent, Body: there}
	return here, bufio.NewReadWriter(bufio.NewReader(here), bufio.NewWriter(here)), nil
}

// result returns the complete response.
func (w *response) result(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return nil, w.err
	}
	header := w.sent
	if header == nil {
		header = w.header
	}
	return &http.Response{Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1, Header: header, Body: io.NopCloser(bytes.NewReader(w.body.Bytes())),
		ContentLength: int64(w.body.Len()), Request: r}, nil
}
