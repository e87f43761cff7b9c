package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// receiver takes logs of pods in any form of text, in requests over HTTP and from connections without a protocol, and
// notes which have arrived.
type receiver struct {
	http, tcp net.Listener
	server    *http.Server
	zstd      *zstd.Decoder

	mu       sync.Mutex
	arrived  [numberOfPods][]bool // by pod and number
	logs     int                  // different ones
	repeated int
	torn     int
	wrong    error // the first request that is wrong as a whole
}

func newReceiver() (_ *receiver, err error) {
	r := &receiver{}
	if r.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1)); err != nil {
		return nil, err
	}
	if r.http, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	if r.tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, errors.Join(err, r.http.Close())
	}
	r.server = &http.Server{Handler: r}
	go func() { _ = r.server.Serve(r.http) }()
	go r.accept()
	return r, nil
}

func (r *receiver) close() error {
	err := errors.Join(r.server.Close(), r.tcp.Close())
	r.zstd.Close()
	return err
}

// url is the address for requests.
func (r *receiver) url() string { return "http://" + r.http.Addr().String() + "/" }

// port is that for connections without a protocol.
func (r *receiver) port() int { return r.tcp.Addr().(*net.TCPAddr).Port }

// count returns how many different logs have arrived.
func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.logs
}

// ServeHTTP takes the logs of a request.
func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err == nil {
		body, err = r.decode(q.Header.Get("Content-Encoding"), body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		if r.wrong == nil {
			r.wrong = err
		}
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.take(body)
	w.WriteHeader(http.StatusNoContent)
}

func (r *receiver) decode(encoding string, body []byte) ([]byte, error) {
	switch encoding {
	case "", "identity":
		return body, nil
	case "zstd":
		return r.zstd.DecodeAll(body, nil)
	case "gzip":
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(z)
	}
	return nil, fmt.Errorf("the encoding is %q", encoding)
}

// accept takes the lines of connections.
func (r *receiver) accept() {
	for {
		c, err := r.tcp.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			buf := make([]byte, 1<<20)
			for n := 0; n < len(buf); {
				more, err := c.Read(buf[n:])
				n += more
				whole := n
				if err == nil {
					whole = bytes.LastIndexByte(buf[:n], '\n') + 1
				}
				r.mu.Lock()
				r.take(buf[:whole])
				r.mu.Unlock()
				if n = copy(buf, buf[whole:n]); err != nil {
					return
				}
			}
		}()
	}
}

// take notes the logs in a text. A log reaches from its first field to that of the next one. The caller holds mu.
func (r *receiver) take(text []byte) {
	for {
		begin := bytes.Index(text, []byte(fieldPod))
		if begin < 0 {
			return
		}
		text = text[begin:]
		log := text
		if end := bytes.Index(text[1:], []byte(fieldPod)); end >= 0 {
			log = text[:1+end]
		}
		text = text[len(log):]
		pod, ok1 := numberIn(log, fieldPod)
		seq, ok2 := numberIn(log, fieldSeq)
		end, ok3 := numberIn(log, fieldEnd)
		const most = 1 << 30 // logs of a pod
		if !ok1 || !ok2 || !ok3 || pod >= numberOfPods || seq >= most || end != endOf(pod, seq) {
			r.torn++
			continue
		}
		for len(r.arrived[pod]) <= seq {
			r.arrived[pod] = append(r.arrived[pod], make([]bool, 4096)...)
		}
		if r.arrived[pod][seq] {
			r.repeated++
			continue
		}
		r.arrived[pod][seq] = true
		r.logs++
	}
}

// numberIn returns the value of a field of a log, whose quotes may be escaped.
func numberIn(log []byte, field string) (n int, ok bool) {
	at := bytes.Index(log, []byte(field))
	if at < 0 {
		return 0, false
	}
	const most = 8 // of quotes, backslashes and a colon
	rest := log[at+len(field):]
	digits := bytes.IndexAny(rest[:min(len(rest), most)], "0123456789")
	if digits < 0 {
		return 0, false
	}
	for _, c := range rest[digits:] {
		if c < '0' || c > '9' || n > 1<<40 {
			break
		}
		n, ok = 10*n+int(c-'0'), true
	}
	return n, ok
}

// missing returns how many written logs have not arrived. written has the number of logs of each pod.
func (r *receiver) missing(written []int) (missing int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pod, n := range written {
		for seq := range n {
			if seq >= len(r.arrived[pod]) || !r.arrived[pod][seq] {
				missing++
			}
		}
	}
	return missing
}
