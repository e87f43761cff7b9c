package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/api/rest"
)

// recordedExchange is a request to a real Conduit and its answer. Variables such as $P stand for ids.
type recordedExchange struct {
	Label    string
	Method   string
	Path     string
	Request  any
	Headers  map[string]string
	Status   int
	Response any
}

// deliberate are the recorded exchanges with a deliberately different outcome, and the status that this agent answers
// with; 0 where only fields differ, which are not compared. The table for readers is in api/README.md.
var deliberate = map[string]struct {
	status int
	why    string
}{
	"info":                    {200, "JSON instead of a page"},
	"plugins badregex":        {400, "the client's mistake"},
	"create pl longname":      {400, "the client's mistake; the most is 128"},
	"create pl longdesc":      {400, "the client's mistake"},
	"create pl unknown field": {400, "a field that would be ignored"},
	"list badregex":           {400, "the client's mistake"},
	"list unknown param":      {400, "a parameter that would be ignored"},
	"dlq put bad thr":         {400, "the client's mistake"},
	"dlq put partial":         {0, "omitted fields have the defaults of pipeline files"},
	"snake dlq":               {0, "omitted fields have the defaults of pipeline files"},
	"start no conns":          {400, "the client's mistake"},
	"create conn no type":     {400, "the client's mistake"},
	"create conn bad enum":    {400, "the client's mistake"},
	"create conn no name":     {200, "the id is the name"},
	"put pl running":          {200, "a name may change while the pipeline runs"},
	"get after force":         {0, "a pipeline that was forced to stop is stopped"},
	"stop 404":                {404, "there is no such pipeline"},
	"export":                  {200, "implemented"},
	"import":                  {400, "implemented, for pipeline files"},
	"405":                     {405, "the status for it"},
	"OPTIONS":                 {405, "the status for it"},
	"trailing slash":          {404, "no such path"},
}

// further are fields of answers that only this agent has.
var further = []string{"exactEffect", "directory"}

// unbound are the exchanges in which the client sent the name of a variable instead of the value.
var unbound = []string{"del SN", "del D2", "del D3", "del L"}

// recorder replays exchanges.
type recorder struct {
	t    *testing.T
	base string
	ids  map[string]string // by variable
}

// TestRecordedSession replays a session recorded with a real Conduit. Every exchange but those in deliberate must have
// the same status and the same fields.
func TestRecordedSession(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/session.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	a := agenttest.Start(t, "")
	a.Wait("the agent to be ready", func() bool { return a.Ready(t.Context()) == nil })
	r := &recorder{t, "http://" + a.Address(), map[string]string{}}
	unused := maps.Clone(deliberate)
	for line := range bytes.Lines(content) {
		var e recordedExchange
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		delete(unused, e.Label)
		r.replay(&e)
	}
	for label := range unused {
		t.Errorf("%q is said to differ and was not recorded", label)
	}
}

func (r *recorder) replay(e *recordedExchange) {
	status, answer := r.ask(e)
	for strings.HasPrefix(e.Label, "get conn running") && !strings.Contains(string(answer), "sourceState") &&
		r.t.Context().Err() == nil {
		status, answer = r.ask(e) // positions are saved with a delay
	}
	r.realign(e, answer)
	differs, known := deliberate[e.Label]
	want := e.Status
	if differs.status != 0 {
		want = differs.status
	}
	if status != want {
		r.t.Errorf("%s: %s %s: %d %.300s, want %d", e.Label, e.Method, e.Path, status, answer, want)
		return
	}
	if _, page := e.Response.(string); known || page {
		return
	}
	var got any
	if err := json.Unmarshal(answer, &got); err != nil {
		r.t.Errorf("%s: %v in %.300s", e.Label, err, answer)
		return
	}
	if e.Status >= 400 {
		r.compareErrors(e, status, answer)
		return
	}
	r.compare(e.Label, "", e.Response, got)
}

// realign restores the recorded set of resources after exchanges with a different outcome.
func (r *recorder) realign(e *recordedExchange, answer []byte) {
	switch e.Label {
	case "create pl unknown field": // refused here, so create it without the field
		again := *e
		again.Request = map[string]any{"config": map[string]any{"name": "pz"}}
		_, answer = r.ask(&again)
		var created any
		if err := json.Unmarshal(answer, &created); err != nil {
			r.t.Fatal(err)
		}
		r.compare(e.Label, "", e.Response, created)
	case "create conn no name": // created here
		var created rest.Connector
		if err := json.Unmarshal(answer, &created); err != nil {
			r.t.Fatal(err)
		}
		if status, answer := r.ask(&recordedExchange{Method: http.MethodDelete,
			Path: "/v1/connectors/" + created.ID}); status != http.StatusOK {
			r.t.Errorf("deleting it: %d %s", status, answer)
		}
	}
}

// ask sends the request of e.
func (r *recorder) ask(e *recordedExchange) (int, []byte) {
	r.t.Helper()
	fill := func(text string) string {
		if slices.Contains(unbound, e.Label) {
			return text
		}
		for _, variable := range slices.Backward(slices.Sorted(maps.Keys(r.ids))) { // $PN before $P
			text = strings.ReplaceAll(text, variable, r.ids[variable])
		}
		return text
	}
	var body io.Reader
	if text, ok := e.Request.(string); ok {
		body = strings.NewReader(text)
	} else if e.Request != nil {
		encoded, err := json.Marshal(e.Request)
		if err != nil {
			r.t.Fatal(err)
		}
		body = strings.NewReader(fill(string(encoded)))
	}
	request, err := http.NewRequestWithContext(r.t.Context(), e.Method, r.base+fill(e.Path), body)
	if err != nil {
		r.t.Fatal(err)
	}
	for name, value := range e.Headers {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, answer
}

// compareErrors compares codes, and also reasons where a real Conduit has one.
func (r *recorder) compareErrors(e *recordedExchange, status int, answer []byte) {
	body, err := json.Marshal(e.Response)
	if err != nil {
		r.t.Fatal(err)
	}
	want, got := rest.ParseError(e.Status, body), rest.ParseError(status, answer)
	if got.Code != want.Code || want.Reason != "" && want.Reason != "internal.unknown" && got.Reason != want.Reason {
		r.t.Errorf("%s: error %d %s, want %d %s", e.Label, got.Code, got.Reason, want.Code, want.Reason)
	}
}

// compare compares a value at a path of an answer. It skips times, and settings, which a real Conduit never shows.
func (r *recorder) compare(label, path string, want, got any) {
	name := path[strings.LastIndexByte(path, '.')+1:]
	switch want := want.(type) {
	case map[string]any:
		object, _ := got.(map[string]any)
		r.compareObjects(label, path, want, object)
		return
	case []any:
		list, _ := got.([]any)
		r.compareLists(label, path, want, list)
		return
	case string:
		text, isText := got.(string)
		switch {
		case isText && (name == "createdAt" || name == "updatedAt" || name == "position" || name == "hash" ||
			want == "***" || want == "…"):
			return
		case isText && strings.HasPrefix(want, "$") && r.ids[want] == "":
			r.ids[want] = text
			return
		case strings.HasPrefix(want, "$"):
			want = r.ids[want]
		}
		if want == text && isText {
			return
		}
	}
	if !reflect.DeepEqual(want, got) {
		r.t.Errorf("%s: %s is %v, want %v", label, path, got, want)
	}
}

func (r *recorder) compareObjects(label, path string, want, got map[string]any) {
	for name := range got {
		if _, ok := want[name]; !ok && !slices.Contains(further, name) {
			r.t.Errorf("%s: %s.%s is not in the recorded answer", label, path, name)
		}
	}
	for name, value := range want {
		other, ok := got[name]
		if !ok {
			r.t.Errorf("%s: %s.%s is missing", label, path, name)
			continue
		}
		r.compare(label, path+"."+name, value, other)
	}
}

// compareLists compares lists of resources by their ids, lists of plugins by their description, and other lists element
// by element.
func (r *recorder) compareLists(label, path string, want, got []any) {
	if strings.HasSuffix(label, "plugins") || strings.HasPrefix(label, "conn plugins") {
		r.comparePlugins(label, want, got)
		return
	}
	if len(want) != len(got) {
		r.t.Errorf("%s: %d elements at %s, want %d", label, len(got), path, len(want))
		return
	}
	for i := range want {
		other := got[i]
		if object, ok := want[i].(map[string]any); ok && object["id"] != nil {
			at := slices.IndexFunc(got, func(g any) bool { return g.(map[string]any)["id"] == r.id(object["id"]) })
			if at < 0 {
				r.t.Errorf("%s: %v is missing", label, object["id"])
				continue
			}
			other = got[at]
		}
		r.compare(label, fmt.Sprintf("%s[%d]", path, i), want[i], other)
	}
}

// id returns the id that this agent uses for a recorded id.
func (r *recorder) id(recorded any) any {
	if text, ok := recorded.(string); ok && r.ids[text] != "" {
		return r.ids[text]
	}
	return recorded
}

// comparePlugins compares the fields that describe plugins. All recorded parameters must be present.
func (r *recorder) comparePlugins(label string, want, got []any) {
	for _, w := range want {
		recorded := w.(map[string]any)
		kind, _, _ := strings.Cut(recorded["name"].(string), "@")
		i := slices.IndexFunc(got, func(g any) bool {
			return strings.HasPrefix(g.(map[string]any)["name"].(string), kind+"@")
		})
		if i < 0 {
			r.t.Errorf("%s: there is no %s", label, kind)
			continue
		}
		if have, should := shape(got[i]), shape(recorded); !reflect.DeepEqual(have, should) {
			r.t.Errorf("%s: %s has %v, want %v", label, kind, have, should)
		}
		for _, field := range []string{"sourceParams", "destinationParams", "parameters"} {
			have, _ := got[i].(map[string]any)[field].(map[string]any)
			should, _ := recorded[field].(map[string]any)
			for name := range should {
				if _, ok := have[name]; !ok {
					r.t.Errorf("%s: %s of %s lack %s", label, field, kind, name)
				}
			}
		}
	}
}

// shape returns the names of all fields in the description of a plugin, its parameters and their validations.
func shape(v any) []string {
	found := map[string]bool{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, value := range v {
				at := path + "." + name
				if strings.HasSuffix(path, "Params") || strings.HasSuffix(path, ".parameters") {
					at = path + ".*" // the name of a parameter
				}
				found[at] = true
				walk(at, value)
			}
		case []any:
			for _, item := range v {
				walk(path+"[]", item)
			}
		}
	}
	walk("", v)
	return slices.Sorted(maps.Keys(found))
}
