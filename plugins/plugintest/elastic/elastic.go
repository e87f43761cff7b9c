// Package elastic provides a server for tests that keeps documents and has the bulk API of Elasticsearch. It checks
// requests more strictly than the real servers do.
package elastic

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
)

// Operation is one operation of a bulk request.
type Operation struct {
	Kind     string          `json:"kind"` // index, create or delete
	Index    string          `json:"index"`
	ID       string          `json:"id"`
	Document json.RawMessage `json:"document,omitempty"` // none for delete
}

// Result is the result of an operation.
type Result struct {
	Status int `json:"status"`
	Error  any `json:"error,omitempty"`
}

// Failure returns a result with an error.
func Failure(status int, kind, reason string) Result {
	return Result{status, map[string]string{"type": kind, "reason": reason}}
}

// Server keeps documents. The zero Server keeps them in memory.
type Server struct {
	// Before, if not nil, is called with each request before the server executes it. If it returns true, it has
	// responded, and the server does not execute the request.
	Before func(w http.ResponseWriter, r *http.Request, body []byte) bool
	// Refuse, if not nil, returns the result of an operation that the server does not execute.
	Refuse func(Operation) (Result, bool)
	// After, if not nil, is called with the response after the server has executed the request. If it returns true, it
	// has responded.
	After func(w http.ResponseWriter, response []byte) bool

	mu   sync.Mutex
	log  *os.File                 // guarded by mu; nil: in memory only
	all  map[[2]string]*Operation // guarded by mu; operations that made the documents, by index and id
	list []*Operation             // guarded by mu; in the order in which the documents were created; deleted ones, too
	n    int                      // guarded by mu; operations executed
}

// Open returns a server that keeps its documents in a file. It syncs the file before it responds, so that it loses
// nothing when it is killed.
func Open(path string) (*Server, error) {
	s := &Server{}
	var err error
	if s.log, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644); err != nil {
		return nil, err
	}
	content, err := io.ReadAll(s.log)
	if err != nil {
		return nil, err
	}
	if end := bytes.LastIndexByte(content, '\n') + 1; end < len(content) { // torn by a kill, so never acknowledged
		content = content[:end]
		if err := s.log.Truncate(int64(end)); err != nil {
			return nil, err
		}
	}
	for line := range bytes.Lines(content) {
		var o Operation
		if err := json.Unmarshal(line, &o); err != nil {
			return nil, err
		}
		s.execute(o)
	}
	return s, nil
}

// Documents returns the documents in the order in which they were created.
func (s *Server) Documents() (all []Operation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.list {
		if s.all[[2]string{o.Index, o.ID}] == o {
			all = append(all, *o)
		}
	}
	return all
}

// Executed returns the number of operations that the server has executed, repeated ones included.
func (s *Server) Executed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// execute executes an operation that is not refused.
func (s *Server) execute(o Operation) Result {
	s.n++
	place := [2]string{o.Index, o.ID}
	if s.all == nil {
		s.all = map[[2]string]*Operation{}
	}
	existing := s.all[place]
	switch {
	case o.Kind == "delete" && existing == nil:
		return Result{Status: http.StatusNotFound}
	case o.Kind == "delete":
		delete(s.all, place)
		return Result{Status: http.StatusOK}
	case existing == nil:
		s.all[place] = &o
		s.list = append(s.list, &o)
		return Result{Status: http.StatusCreated}
	case o.Kind == "create":
		return Failure(http.StatusConflict, "version_conflict_engine_exception", "document already exists")
	}
	*existing = o
	return Result{Status: http.StatusOK}
}

// ServeHTTP executes a bulk request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var from io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		from = unpacked
	}
	body, err := io.ReadAll(from)
	if err != nil || s.Before != nil && s.Before(w, r, body) {
		return
	}
	if r.Method == http.MethodGet && r.URL.Path == "/" {
		_, _ = io.WriteString(w, `{"version":{"number":"8.0.0"}}`)
		return
	}
	if r.Method != http.MethodPost || r.URL.Path != "/_bulk" || r.Header.Get("Content-Type") != "application/x-ndjson" {
		http.Error(w, fmt.Sprintf("unexpected request: %s %s with %s", r.Method, r.URL, r.Header), http.StatusNotFound)
		return
	}
	all, err := parse(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response, err := s.executeAll(all)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if s.After == nil || !s.After(w, response) {
		_, _ = w.Write(response)
	}
}

func (s *Server) executeAll(all []Operation) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var answer struct {
		Errors bool                `json:"errors"`
		Items  []map[string]Result `json:"items"`
	}
	var log bytes.Buffer
	for _, o := range all {
		var result Result
		refused := false
		if s.Refuse != nil {
			result, refused = s.Refuse(o)
		}
		if !refused {
			result = s.execute(o)
			line, err := json.Marshal(o)
			if err != nil {
				return nil, err
			}
			log.Write(append(line, '\n'))
		}
		answer.Errors = answer.Errors || result.Error != nil
		answer.Items = append(answer.Items, map[string]Result{o.Kind: result})
	}
	if s.log != nil {
		if _, err := s.log.Write(log.Bytes()); err != nil {
			return nil, err
		}
		if err := s.log.Sync(); err != nil {
			return nil, err
		}
	}
	return json.Marshal(answer)
}

// parse parses a request.
func parse(body []byte) (all []Operation, err error) {
	if !bytes.HasSuffix(body, []byte("\n")) {
		return nil, fmt.Errorf("the request does not end with a newline")
	}
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, len(body)+1)
	for lines.Scan() {
		var action map[string]struct {
			Index string `json:"_index"`
			ID    string `json:"_id"`
		}
		if err := json.Unmarshal(lines.Bytes(), &action); err != nil || len(action) != 1 {
			return nil, fmt.Errorf("%q is no action: %w", lines.Text(), err)
		}
		for kind, at := range action {
			o := Operation{Kind: kind, Index: at.Index, ID: at.ID}
			isKnown := slices.Contains([]string{"index", "create", "delete"}, kind)
			if at.Index == "" || at.ID == "" || len(at.ID) > 512 || !isKnown {
				return nil, fmt.Errorf("%q is no action with an index and an id", lines.Text())
			}
			if kind != "delete" {
				var object map[string]any
				if !lines.Scan() || json.Unmarshal(lines.Bytes(), &object) != nil || object == nil {
					return nil, fmt.Errorf("%q is no document", lines.Text())
				}
				o.Document = bytes.Clone(lines.Bytes())
			}
			all = append(all, o)
		}
	}
	return all, lines.Err()
}
