package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/schema"
)

// server implements the part of the registry API that the client uses, and checks the requests.
type server struct {
	mu         sync.Mutex
	subjects   map[string][]string
	ids        []string
	want       string                      // expected Authorization header
	references map[string][]map[string]any // by text
	types      map[string]string           // by text; AVRO if missing
	gets       int
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
	if r.Method == http.MethodGet {
		s.gets++
	}
	if r.Method == http.MethodGet && len(parts) == 3 && parts[0] == "schemas" && parts[1] == "ids" {
		n, _ := strconv.Atoi(parts[2])
		if n < 1 || n > len(s.ids) {
			s.fail(w, http.StatusNotFound, 40403, "Schema not found")
			return
		}
		s.answer(w, s.described(map[string]any{"schema": s.ids[n-1]}))
		return
	}
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
	if r.Method == http.MethodGet && r.ContentLength != 0 { // some proxies refuse a GET with a body
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
	s.answer(w,
		s.described(map[string]any{"subject": subject, "version": n, "id": 1 + index(s.ids, text), "schema": text}))
}

// described adds members to a response that only some schemas have.
func (s *server) described(answer map[string]any) map[string]any {
	text := answer["schema"].(string)
	if typ, ok := s.types[text]; ok {
		answer["schemaType"] = typ
	}
	if references := s.references[text]; references != nil {
		answer["references"] = references
	}
	return answer
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

func serve(t *testing.T, want string) *schema.ConfluentRegistry {
	t.Helper()
	return connect(t, &server{subjects: map[string][]string{}, want: want})
}

func connect(t *testing.T, s *server) *schema.ConfluentRegistry {
	t.Helper()
	ts := httptest.NewServer(s)
	t.Cleanup(ts.Close)
	r, err := schema.NewConfluentRegistry(ts.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func text(field string) string {
	return `{"type":"record","name":"r","fields":[{"name":"` + field + `","type":"long"}]}`
}

// The registry behaves like the registry in memory.
func TestConfluentRegistry(t *testing.T) {
	r := serve(t, "")
	for i, step := range []struct {
		subject, text string
		version, id   int
	}{
		{"p:s:payload", text("a"), 1, 1}, {"p:s:payload", text("b"), 2, 2},
		{"p:s:payload", text("a"), 1, 1}, {"a b", text("b"), 1, 2},
	} {
		want := schema.Schema{Subject: step.subject, Version: step.version,
			ID: step.id, Type: schema.TypeAvro, Text: step.text}
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
	if _, err := r.Create(t.Context(), "s", schema.TypeAvro,
		text("incompatible")); err == nil || !strings.Contains(err.Error(), "409") {
		t.Error(err)
	}
}

func TestConfluentCredentials(t *testing.T) {
	for want, login := range map[string]func(*schema.ConfluentRegistry){
		"Basic dXNlcjpwYXNz": func(r *schema.ConfluentRegistry) { r.Username, r.Password = "user", "pass" },
		"Bearer token":       func(r *schema.ConfluentRegistry) { r.Token = "token" },
	} {
		r := serve(t, want)
		if _, err := r.Create(t.Context(), "s", schema.TypeAvro, text("a")); err == nil ||
			!strings.Contains(err.Error(), "401") {
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
		if _, err := schema.NewConfluentRegistry(s); err == nil {
			t.Errorf("%q is taken", s)
		}
	}
}

// A schema is found by its id alone and requested once. Errors name the cause.
func TestConfluentByID(t *testing.T) {
	s := &server{subjects: map[string][]string{}, want: "Bearer token",
		ids:   []string{text("a"), text("b"), "message M {}"},
		types: map[string]string{text("b"): "AVRO", "message M {}": "PROTOBUF"}}
	r := connect(t, s)
	if _, err := r.ByID(t.Context(), 1); err == nil || !strings.Contains(err.Error(),
		"401") || !strings.Contains(err.Error(), "confluent.auth") {
		t.Errorf("without credentials: %v", err)
	}
	r.Token = "token"
	cache := &schema.Cache{Registry: r}
	s.gets = 0
	for range 3 {
		for id, want := range map[int]string{1: text("a"), 2: text("b")} {
			if got, err := cache.ByID(t.Context(),
				id); err != nil || got != (schema.Schema{ID: id, Type: schema.TypeAvro, Text: want}) {
				t.Errorf("schema %d: got %v, %v", id, got, err)
			}
		}
	}
	if s.gets != 2 {
		t.Errorf("two schemas took %d requests", s.gets)
	}
	if _, err := cache.ByID(t.Context(), 3); !errors.Is(err,
		schema.ErrInvalidSchema) || !strings.Contains(err.Error(), "PROTOBUF") {
		t.Error(err)
	}
	if _, err := cache.ByID(t.Context(), 4); !errors.Is(err, schema.ErrSubjectNotFound) {
		t.Error(err)
	}
}

// A server without the registry API is distinguished from a registry without the schema.
func TestConfluentIsNoRegistry(t *testing.T) {
	ts := httptest.NewServer(http.NotFoundHandler())
	defer ts.Close()
	r, err := schema.NewConfluentRegistry(ts.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = r.ByID(t.Context(), 1); errors.Is(err,
		schema.ErrSubjectNotFound) || !strings.Contains(fmt.Sprint(err), "connection-string") {
		t.Error(err)
	}
}

func TestConfluentTLS(t *testing.T) {
	ts := httptest.NewTLSServer(&server{})
	ts.Config.ErrorLog = log.New(io.Discard, "", 0) // the client closes the connection
	defer ts.Close()
	r, err := schema.NewConfluentRegistry(ts.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = r.ByID(t.Context(), 1); !strings.Contains(fmt.Sprint(err), "SSL_CERT_FILE") {
		t.Error(err)
	}
}

const (
	country = `{"type":"enum","name":"Country","namespace":"geo","symbols":["FI","NL"]}`
	address = `{"type":"record","name":"geo.Address","fields":[{"name":"street","type":"string"},{"name":"country",
		"type":"Country"},
		{"name":"mark","type":"Mark"}]}`
	mark  = `{"type":"fixed","name":"Mark","size":2}`
	order = `{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long",
		"default":9007199254740993},
		{"name":"mark","type":"Mark"},{"name":"to","type":["null","geo.Address"]},{"name":"from",
		"type":{"type":"geo.Address"}},
		{"name":"all","type":{"type":"array","items":{"type":"map","values":"geo.Country"}}},{"name":"again","type":"Mark"}]}`
)

func referringTo(s *server) {
	ref := func(name, subject string) map[string]any {
		return map[string]any{"name": name, "subject": subject, "version": 1}
	}
	s.ids = []string{country, address, mark, order}
	s.subjects = map[string][]string{"country": {country}, "address": {address}, "mark": {mark}, "order": {order}}
	s.references = map[string][]map[string]any{address: {ref("geo.Country", "country"), ref("Mark", "mark")},
		order: {ref("geo.Address", "address"), ref("geo.Country", "country"), ref("Mark", "mark")}}
}

// The text of a schema includes the types of other subjects that it refers to.
func TestConfluentReferences(t *testing.T) {
	s := &server{}
	referringTo(s)
	r := connect(t, s)
	byID, err := r.ByID(t.Context(), 4)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Get(t.Context(), "order", 1)
	if err != nil || got.Text != byID.Text {
		t.Errorf("by version: %v, %v", got, err)
	}
	codec, err := schema.Parse(byID.Text)
	if err != nil {
		t.Fatalf("%v: %s", err, byID.Text)
	}
	at := map[string]any{"street": "Katu", "country": "FI", "mark": []byte("ef")}
	want := map[string]any{"id": int64(9007199254740993), "mark": []byte("ab"), "to": at, "from": at,
		"all": []any{map[string]any{"a": "NL"}}, "again": []byte("cd")}
	given := maps.Clone(want)
	delete(given, "id") // it has a default
	b, err := codec.Append(nil, given)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := codec.Decode(b); err != nil || !cmp.Equal(want, m) {
		t.Errorf("%v: %s", err, cmp.Diff(want, m))
	}
}

func TestConfluentReferencesThatAreWrong(t *testing.T) {
	for want, spoil := range map[string]func(*server){
		`version 1 of subject "mark"`: func(s *server) { delete(s.subjects, "mark") },
		"does not define the type":    func(s *server) { s.references[order][2]["name"] = "Brand" },
		"more than 200":               func(s *server) { endless(s) },
	} {
		s := &server{}
		referringTo(s)
		spoil(s)
		if _, err := connect(t, s).ByID(t.Context(), 4); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// endless makes the schema order refer to 300 others.
func endless(s *server) {
	for i := range 300 {
		name := fmt.Sprint("F", i)
		s.subjects[name] = []string{`{"type":"fixed","size":1,"name":"` + name + `"}`}
		s.references[order] = append(s.references[order], map[string]any{"name": name, "subject": name, "version": 1})
	}
}
