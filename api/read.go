package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/texts"
)

const (
	maxBody  = 1 << 20 // bytes
	maxDepth = 64
)

// readJSON reads the JSON body of r into v, a pointer to a struct. An empty body leaves v unchanged. Ambiguous bodies
// are refused: unknown fields, duplicate fields, and text that is no UTF-8.
func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := readBody(w, r)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return err
	}
	return decode(body, v)
}

// readBody reads the body of r, up to 1 MiB.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(innermost(w), r.Body, maxBody))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return nil, tooLarge()
	}
	if err != nil {
		return nil, rest.Errorf(rest.InvalidArgument, rest.ReasonInvalid, "cannot read the body: %v", err)
	}
	return body, nil
}

// tooLarge returns the error for a body beyond the limit.
func tooLarge() *rest.Error {
	return rest.Errorf(rest.TooLarge, rest.ReasonTooLarge, "the body is larger than %d bytes", maxBody)
}

// innermost returns the server's own writer, which closes the connection after a body that is too large. With any other
// writer the server waits for the rest of the body.
func innermost(w http.ResponseWriter) http.ResponseWriter {
	for {
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = wrapper.Unwrap()
	}
}

// checkMedia refuses compressed bodies, and bodies from browsers that are not JSON: a page of another site can make a
// browser send forms and text without a preflight request, but not JSON. A body from any other client is JSON, whatever
// its media type.
func checkMedia(r *http.Request, also ...string) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return rest.Errorf(rest.UnsupportedMedia, rest.ReasonMediaType,
			"Content-Encoding %.40q is not supported", e)
	}
	if !fromBrowser(r) {
		return nil
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil {
		for _, m := range append(also, "application/json") {
			if media == m {
				return nil
			}
		}
	}
	return notJSON(also...)
}

// fromBrowser reports whether a page in a browser may have sent r.
func fromBrowser(r *http.Request) bool {
	for name := range r.Header {
		if name == "Origin" || strings.HasPrefix(name, "Sec-Fetch-") {
			return true
		}
	}
	return false
}

// notJSON returns the error that lists the media types a body may have, including also.
func notJSON(also ...string) *rest.Error {
	if len(also) == 0 {
		return rest.Errorf(rest.UnsupportedMedia, rest.ReasonMediaType, "the body must be JSON").
			Suggest("send the header Content-Type: application/json")
	}
	return rest.Errorf(rest.UnsupportedMedia, rest.ReasonMediaType, "the body must be application/json or %s",
		strings.Join(also, " or ")).
		Suggest("send the header Content-Type: %s", also[0])
}

// decode reads body into v, a pointer.
func decode(body []byte, v any) error {
	if !utf8.Valid(body) {
		return rest.Errorf(rest.InvalidArgument, rest.ReasonParse, "the body is not UTF-8")
	}
	w := &walker{Decoder: json.NewDecoder(bytes.NewReader(body))}
	w.UseNumber()
	err := w.value("", reflect.TypeOf(v).Elem(), 0)
	if err == nil {
		if _, end := w.Token(); !errors.Is(end, io.EOF) {
			err = rest.Errorf(rest.InvalidArgument, rest.ReasonParse, "there is data after the JSON value")
		}
	}
	if err == nil && w.snake {
		body, err = renamed(body, reflect.TypeOf(v))
	}
	if err == nil {
		err = json.Unmarshal(body, v)
	}
	return decodeError(body, err)
}

func decodeError(body []byte, err error) error {
	var e *rest.Error
	var mistyped *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case err == nil, errors.As(err, &e):
		return err
	case errors.As(err, &mistyped):
		return wrongType(strings.TrimPrefix(mistyped.Field, "Processor."), mistyped.Type, mistyped.Value) // embedded
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return rest.Errorf(rest.InvalidArgument, rest.ReasonParse, "the JSON ends too early, in line %d",
			1+bytes.Count(body, []byte("\n")))
	case errors.As(err, &syntax):
		errors.As(json.Unmarshal(body, new(json.RawMessage)), &syntax) // it reports the exact place
		read := body[:min(max(syntax.Offset-1, 0), int64(len(body)))]  // the faulty character is the next one
		line, column := 1+bytes.Count(read, []byte("\n")), len(read)-bytes.LastIndexByte(read, '\n')
		return rest.Errorf(rest.InvalidArgument, rest.ReasonParse, "the body is not JSON: line %d, column %d: %v", line,
			column, err)
	}
	return rest.Errorf(rest.InvalidArgument, rest.ReasonParse, "the body is invalid: %v", err)
}

// fieldError returns the error for a field of a request.
func fieldError(code, field, message string) *rest.Error {
	e := rest.Errorf(rest.InvalidArgument, code, "%s", message).With("configPath", field)
	e.Violations = []rest.Violation{{Field: field, Description: message}}
	return e
}

// about makes err an error about a field of the request, if the client caused it.
func about(err error, field string) error {
	if e, ok := err.(*rest.Error); ok {
		return e.With("configPath", field)
	}
	return err
}

func wrongType(field string, want reflect.Type, got string) error {
	return fieldError(spec.CodeInvalid, field,
		fmt.Sprintf("%s must be %s, not %s", cmp.Or(field, "the body"), typeName(want), got))
}

func typeName(t reflect.Type) string {
	if t == reflect.TypeFor[rest.Count]() {
		return "a non-negative integer"
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Slice:
		return "a list"
	}
	return "an integer"
}

// walker reads JSON token by token, along with the type that it is decoded to.
type walker struct {
	*json.Decoder
	snake bool // the name of some field is in snake case
}

// value reads a value. t is nil where any value is allowed.
func (w *walker) value(path string, t reflect.Type, depth int) error {
	if depth > maxDepth {
		return rest.Errorf(rest.InvalidArgument, rest.ReasonParse, "%.80s: the JSON is nested more than %d deep", path,
			maxDepth)
	}
	token, err := w.Token()
	if err != nil {
		return err
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if !suits(token, t) {
		return wrongType(path, t, tokenName(token))
	}
	switch token {
	case json.Delim('{'):
		err = w.object(path, t, depth)
	case json.Delim('['):
		for i := 0; w.More() && err == nil; i++ {
			err = w.value(fmt.Sprintf("%s[%d]", path, i), element(t, reflect.Slice), depth+1)
		}
	default:
		return nil
	}
	if err == nil {
		_, err = w.Token()
	}
	return err
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// suits reports whether a value that starts with token can become a t. The decoder checks the value itself, such as the
// range of a number.
func suits(token json.Token, t reflect.Type) bool {
	if token == nil || t == nil || t.Kind() == reflect.Interface || reflect.PointerTo(t).Implements(unmarshaler) {
		return true
	}
	switch token := token.(type) {
	case json.Delim:
		return (token == '[') == (t.Kind() == reflect.Slice) &&
			(token == '{') == (t.Kind() == reflect.Struct || t.Kind() == reflect.Map)
	case string:
		return t.Kind() == reflect.String || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
	case bool:
		return t.Kind() == reflect.Bool
	}
	return t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64
}

func tokenName(token json.Token) string {
	switch token := token.(type) {
	case json.Delim:
		return map[json.Delim]string{'[': "array", '{': "object"}[token]
	case string:
		return "string"
	case bool:
		return "bool"
	}
	return "number"
}

func (w *walker) object(path string, t reflect.Type, depth int) error {
	fields := fieldsOf(t)
	seen := map[string]bool{}
	for w.More() {
		token, err := w.Token()
		if err != nil {
			return err
		}
		name := token.(string) // the decoder allows no other key
		field := joinPath(path, name)
		if fields != nil {
			known := named(fields, name)
			if known == "" {
				return unknownField(field, name, fields)
			}
			w.snake = w.snake || known != name
			name = known
		}
		if seen[name] {
			return fieldError(spec.CodeDuplicateKey, field, fmt.Sprintf("%s appears twice", field))
		}
		seen[name] = true
		fieldType := fields[name]
		if fields == nil {
			fieldType = element(t, reflect.Map)
		}
		if err := w.value(field, fieldType, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func unknownField(field, name string, fields map[string]reflect.Type) error {
	var names []string
	for n := range fields {
		names = append(names, n)
	}
	e := fieldError(spec.CodeUnknown, field, fmt.Sprintf("%s is not a field of this request", field))
	if near := texts.Closest(name, names); near != "" {
		e.Suggest("did you mean %q?", near)
	}
	return e
}

func element(t reflect.Type, kind reflect.Kind) reflect.Type {
	if t != nil && t.Kind() == kind {
		return t.Elem()
	}
	return nil
}

// fieldsOf returns the fields of a struct by their name in JSON, nil for anything else.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "" && name != "-" {
			fields[name] = f.Type
		}
	}
	return fields
}
