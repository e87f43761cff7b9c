package api

import (
	"embed"
	"encoding/json"
	"maps"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/julienschmidt/httprouter"

	"github.com/conduit-agent/conduit/spec/texts"
)

// operation is one thing that can be done over the API.
type operation struct {
	Method      string
	Path        string // with parameters in braces: /v1/pipelines/{id}
	ID          string // unique
	Tag         string // the kind of resource that the operation belongs to
	Summary     string
	Description string
	Query       []param
	Headers     []param
	Request     any               // example of the body; nil when there is none
	Also        map[string]string // examples of the body in other media types than JSON
	Optional    bool              // the body may be left out
	Answer      []param           // headers of a success
	Response    any               // example of the body of a success; nil when there is none
	MediaType   string            // of the response; default application/json
	Streaming   bool              // the response does not end; over WebSocket, too
	Errors      []int             // statuses of the errors to expect
}

// param is a parameter of the query or a header.
type param struct {
	Name        string
	Description string
	Example     string
}

var pathParam = texts.Regexp(`\{(\w+)\}`)

// openAPI returns the OpenAPI 3.1 document of the operations. ids describe the parameters
// of paths, by the path as far as the parameter. failures are examples of the bodies of all
// errors, by status.
func openAPI(
	title, version, description string, operations []operation, ids map[string]param, failures map[int]any,
) []byte {
	s := schemaSet{map[string]any{}, map[string]reflect.Type{}}
	responses := map[string]any{}
	for status, example := range failures {
		responses[strconv.Itoa(status)] = map[string]any{"description": http.StatusText(status) + ".",
			"content": s.content("application/json", example)}
	}
	paths := map[string]map[string]any{}
	tags := []map[string]any{}
	for _, o := range operations {
		if paths[o.Path] == nil {
			paths[o.Path] = map[string]any{}
		}
		paths[o.Path][strings.ToLower(o.Method)] = s.operation(&o, ids)
		if !slices.ContainsFunc(tags, func(t map[string]any) bool { return t["name"] == o.Tag }) {
			tags = append(tags, map[string]any{"name": o.Tag})
		}
	}
	text, err := json.MarshalIndent(map[string]any{
		"openapi": "3.1.0",
		"info":    map[string]any{"title": title, "version": version, "description": description},
		"tags":    tags,
		"paths":   paths,
		"components": map[string]any{
			"schemas":         s.named,
			"responses":       responses,
			"securitySchemes": map[string]any{"token": map[string]any{"type": "http", "scheme": "bearer"}},
		},
		"security": []any{map[string]any{}, map[string]any{"token": []any{}}},
	}, "", "  ")
	if err != nil {
		panic(err) // the document consists of JSON types
	}
	return text
}

func (s schemaSet) operation(o *operation, ids map[string]param) map[string]any {
	media := o.MediaType
	if media == "" {
		media = "application/json"
	}
	responses := map[string]any{}
	if o.Response != nil {
		success := map[string]any{"description": "Success.", "content": s.content(media, o.Response)}
		if len(o.Answer) > 0 {
			success["headers"] = s.headers(o.Answer)
		}
		responses["200"] = success
	}
	for _, status := range o.Errors {
		responses[strconv.Itoa(status)] = map[string]any{"$ref": "#/components/responses/" + strconv.Itoa(status)}
	}
	op := map[string]any{"operationId": o.ID, "tags": []string{o.Tag}, "summary": o.Summary,
		"parameters": s.parameters(o, ids), "responses": responses}
	if o.Description != "" {
		op["description"] = o.Description
	}
	if o.Streaming {
		op["x-streaming"] = true
	}
	if o.Request != nil {
		content := s.content("application/json", o.Request)
		for media, text := range o.Also {
			maps.Copy(content, s.content(media, text))
		}
		op["requestBody"] = map[string]any{"required": !o.Optional, "content": content}
	}
	return op
}

func (s schemaSet) content(media string, example any) map[string]any {
	if text, ok := example.(string); ok {
		return map[string]any{media: map[string]any{"schema": map[string]any{"type": "string"}, "example": text}}
	}
	return map[string]any{media: map[string]any{"schema": s.schemaOf(example), "example": example}}
}

func (s schemaSet) headers(all []param) map[string]any {
	headers := map[string]any{}
	for _, p := range all {
		headers[p.Name] = map[string]any{"description": p.Description, "schema": map[string]any{"type": "string"},
			"example": p.Example}
	}
	return headers
}

func (s schemaSet) parameters(o *operation, ids map[string]param) []any {
	all := []any{}
	add := func(in string, required bool, p param) {
		one := map[string]any{"name": p.Name, "in": in, "required": required,
			"schema": map[string]any{"type": "string"}}
		if p.Description != "" {
			one["description"] = p.Description
		}
		if p.Example != "" {
			one["example"] = p.Example
		}
		all = append(all, one)
	}
	for _, m := range pathParam().FindAllStringSubmatchIndex(o.Path, -1) {
		p := ids[o.Path[:m[1]]]
		p.Name = o.Path[m[2]:m[3]]
		add("path", true, p)
	}
	for _, p := range o.Query {
		add("query", false, p)
	}
	for _, p := range o.Headers {
		add("header", false, p)
	}
	return all
}

//go:embed explorer
var files embed.FS

// explorerPolicy lets the explorer load nothing from elsewhere, and make no markup
// from text.
const explorerPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' " +
	"data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; " +
	"trusted-types 'none'"

var types = map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8"}

// explorerFile returns a file of the explorer and its media type, false if there is none of this
// name. The page itself is index.html, and loads openapi.json from the same directory.
func explorerFile(name string) (content []byte, mediaType string, ok bool) {
	content, err := files.ReadFile("explorer/" + path.Base(name))
	return content, types[path.Ext(name)], err == nil
}

// explorer serves the page on which the API can be tried. It contains no data, so it
// needs no token.
func (s *Server) explorer(router *httprouter.Router) {
	serve := func(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
		name := params.ByName("file")
		switch name {
		case "openapi.json":
			writeAnswer(w, http.StatusOK, "application/json", document())
			return
		case "":
			name = "index.html"
		}
		content, media, ok := explorerFile(name)
		if !ok {
			s.fail(w, r, notFound())
			return
		}
		w.Header().Set("Content-Security-Policy", explorerPolicy)
		writeAnswer(w, http.StatusOK, media, content)
	}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		router.Handle(method, "/openapi/", serve)
		router.Handle(method, "/openapi/:file", serve)
		router.Handler(method, "/openapi", http.RedirectHandler("/openapi/", http.StatusFound))
	}
}
