package schema_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/schema/confluent"
)

// server speaks the part of the interface that is used, and checks what it is asked.
type server struct {
	mu       sync.Mutex
	subjects map[string][]string
	ids      []string
	want     string // Authorization
}

const media = "application/vnd.schemaregistry.v1+json"

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Header.Get("Authorization") != s.want {
		s.fail(w, http.StatusUnauthorized, 401, "Unauthorized")
		return
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) < 2 || parts[0] != "subjects" {
		s.fail(w, http.StatusNotFound, 404, "HTTP 404 Not Found")
		return
	}
	versions, known := s.subjects[parts[1]]
	var body struct{ Schema string }
	if r.Method == http.MethodPost {
		if r.Header.Get("Content-Type") != media || json.NewDecoder(r.Body).Decode(&body) != nil {
			s.fail(w, http.StatusUnsupportedMediaType, 415, "HTTP 415 Unsupported Media Type")
			return
		}
	}
	if r.Method == http.MethodGet && r.ContentLength != 0 { // some proxies refuse it
		s.fail(w, http.StatusBadRequest, 400, "HTTP 400 Bad Request")
		return
	}
	switch {
	case r.Method == http.MethodPost && len(parts) == 3 && parts[2] == "versions":
		if strings.Contains(body.Schema, "incompatible") {
			s.fail(w, http.StatusConflict, 409, "Schema being registered is incompatible")
			return
		}
		if index(versions, body.Schema) < 0 {
			s.subjects[parts[1]] = append(versions, body.Schema)
		}
		if index(s.ids, body.Schema) < 0 {
			s.ids = append(s.ids, body.Schema)
		}
		s.answer(w, map[string]any{"id": 1 + index(s.ids, body.Schema)})
	case !known:
		s.fail(w, http.StatusNotFound, 40401, "Subject not found.")
	case r.Method == http.MethodPost && len(parts) == 2:
		s.version(w, parts[1], 1+index(versions, body.Schema))
	case r.Method == http.MethodGet && len(parts) == 4:
		n, _ := strconv.Atoi(parts[3])
		if n < 1 || n > len(versions) {
			s.fail(w, http.StatusNotFound, 40402, "Version not found.")
			return
		}
		s.version(w, parts[1], n)
	default:
		s.fail(w, http.StatusMethodNotAllowed, 405, "HTTP 405 Method Not Allowed")
	}
}

func (s *server) version(w http.ResponseWriter, subject string, n int) {
	text := s.subjects[subject][n-1]
	s.answer(w, map[string]any{"subject": subject, "version": n, "id": 1 + index(s.ids, text), "schema": text})
}

func (s *server) fail(w http.ResponseWriter, status, code int, message string) {
	w.WriteHeader(status)
	s.answer(w, map[string]any{"error_code": code, "message": message})
}

func (s *server) answer(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

func index(all []string, one string) int {
	for i := range all {
		if all[i] == one {
			return i
		}
	}
	return -1
}

func serve(t *testing.T, want string) *confluent.Registry {
	t.Helper()
	ts := httptest.NewServer(&server{subjects: map[string][]string{}, want: want})
	t.Cleanup(ts.Close)
	r, err := confluent.New(ts.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func text(field string) string {
	return `{"type":"record","name":"r","fields":[{"name":"` + field + `","type":"long"}]}`
}

// The registry answers as the one in memory does.
func TestConfluentRegistry(t *testing.T) {
	r := serve(t, "")
	for i, step := range []struct {
		subject, text string
		version, id   int
	}{
		{"p:s:payload", text("a"), 1, 1}, {"p:s:payload", text("b"), 2, 2}, {"p:s:payload", text("a"), 1, 1}, {"a b", text("b"), 1, 2},
	} {
		want := schema.Schema{Subject: step.subject, Version: step.version, ID: step.id, Type: schema.TypeAvro, Text: step.text}
		if s, err := r.Create(t.Context(), step.subject, schema.TypeAvro, step.text); err != nil || s != want {
			t.Errorf("step %d: got %v, %v", i, s, err)
		}
		if s, err := r.Get(t.Context(), step.subject, step.version); err != nil || s != want {
			t.Errorf("step %d: Get returned %v, %v", i, s, err)
		}
	}
	if _, err := r.Get(t.Context(), "x", 1); !errors.Is(err, schema.ErrSubjectNotFound) {
		t.Error(err)
	}
	if _, err := r.Get(t.Context(), "a b", 2); !errors.Is(err, schema.ErrVersionNotFound) {
		t.Error(err)
	}
	for typ, schemaText := range map[schema.Type]string{schema.TypeAvro: "nonsense", 0: text("a")} {
		if _, err := r.Create(t.Context(), "s", typ, schemaText); !errors.Is(err, schema.ErrInvalidSchema) {
			t.Error(err)
		}
	}
	if _, err := r.Create(t.Context(), "s", schema.TypeAvro, text("incompatible")); err == nil || !strings.Contains(err.Error(), "409") {
		t.Error(err)
	}
}

func TestConfluentCredentials(t *testing.T) {
	for want, login := range map[string]func(*confluent.Registry){
		"Basic dXNlcjpwYXNz": func(r *confluent.Registry) { r.Username, r.Password = "user", "pass" },
		"Bearer token":       func(r *confluent.Registry) { r.Token = "token" },
	} {
		r := serve(t, want)
		if _, err := r.Create(t.Context(), "s", schema.TypeAvro, text("a")); err == nil || !strings.Contains(err.Error(), "401") {
			t.Errorf("without credentials: %v", err)
		}
		login(r)
		if _, err := r.Create(t.Context(), "s", schema.TypeAvro, text("a")); err != nil {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestConfluentConnectionStrings(t *testing.T) {
	for _, s := range []string{"", "localhost:8081", "ftp://host", "http://", "::"} {
		if _, err := confluent.New(s); err == nil {
			t.Errorf("%q is taken", s)
		}
	}
}
