package s3_test

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/s3"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// memory is a store with conditional writes in memory.
type memory struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string]object // guarded by mu
	// fate decides, if it is not nil, what happens to a request. Guarded by mu.
	fate func(method, key, body string) fate
	late []func() // guarded by mu: writes that the store carries out after it has answered with an error
}

type object struct {
	body   string
	header http.Header
}

// fate is what happens to a request.
type fate int

const (
	answered fate = iota
	refused       // with an error
	lost          // carried out, and answered with an error
	delayed       // answered with an error, and carried out later
	tooLarge      // refused for its size
)

func newMemory(t *testing.T) *memory {
	m := &memory{objects: map[string]object{}}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

func (m *memory) addr() string { return strings.TrimPrefix(m.URL, "http://") }

// ServeHTTP answers the requests of destinations.
func (m *memory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m.mu.Lock()
	defer m.mu.Unlock()
	key := strings.TrimPrefix(r.URL.Path, "/bkt/")
	what := answered
	if m.fate != nil {
		what = m.fate(r.Method, key, string(body))
	}
	switch what {
	case delayed:
		m.late = append(m.late, func() { m.serve(httptest.NewRecorder(), r, key, string(body)) })
	case lost:
		m.serve(httptest.NewRecorder(), r, key, string(body))
	case tooLarge:
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "<Error><Code>EntityTooLarge</Code></Error>")
		return
	case answered:
		m.serve(w, r, key, string(body))
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}

func (m *memory) serve(w http.ResponseWriter, r *http.Request, key, body string) {
	o, exists := m.objects[key]
	switch {
	case r.Method == http.MethodPut && exists && r.Header.Get("If-None-Match") == "*":
		w.WriteHeader(http.StatusPreconditionFailed)
		_, _ = io.WriteString(w, "<Error><Code>PreconditionFailed</Code></Error>")
	case r.Method == http.MethodPut:
		m.objects[key] = object{body, r.Header}
	case r.Method == http.MethodDelete:
		delete(m.objects, key)
	case r.URL.Query().Has("list-type"):
		m.list(w, r.URL.Query().Get("prefix"), r.URL.Query().Get("start-after"))
	case !exists && strings.Contains(r.URL.Path, "/bkt/") && key != "":
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<Error><Code>NoSuchKey</Code></Error>")
	case exists:
		for name, values := range o.header {
			if strings.HasPrefix(name, "X-Amz-Meta-") {
				w.Header()[name] = values
			}
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(o.body)))
		_, _ = io.WriteString(w, o.body)
	}
}

func (m *memory) list(w io.Writer, prefix, after string) {
	type contents struct{ Key string }
	page := struct {
		XMLName  xml.Name `xml:"List"`
		Contents []contents
	}{}
	for _, key := range slices.Sorted(maps.Keys(m.objects)) {
		if strings.HasPrefix(key, prefix) && key > after && len(page.Contents) < 100 {
			page.Contents = append(page.Contents, contents{key})
		}
	}
	_ = xml.NewEncoder(w).Encode(page)
}

// settle carries out the delayed writes.
func (m *memory) settle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, do := range m.late {
		do()
	}
	m.late = nil
}

var number = regexp.MustCompile("[0-9]{19,20}")

// payloads returns the payloads of the objects outside the ledger, in the order of their keys. Keys have # for the
// number of the object.
func (m *memory) payloads(t *testing.T) map[string][]string {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(m.objects)) {
		if strings.HasPrefix(key, ".conduit-positions/") {
			continue
		}
		name := number.ReplaceAllString(key, "#")
		for line := range strings.Lines(m.objects[key].body) {
			var l struct{ Payload string }
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err)
			}
			all[name] = append(all[name], l.Payload)
		}
	}
	return all
}

const byKey = `data/{{ .Metadata.GetCollection }}/{{ strftime "%Y-%m-%d" }}/requests.v1.jsonl`

// TestKeys names objects by a template of the whole key, and by plain text.
func TestKeys(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		byKey: "map[data/a.b/2026-02-28/requests-#.v1.jsonl:[1 3] " +
			"data/c/2026-02-28/requests-#.v1.jsonl:[2]]",
		`x/{{ .Metadata.GetCollection }}`:       "map[x/a.b-#:[1 3] x/c-#:[2]]",
		`x/{{ .Metadata.GetCollection }}.json`:  "map[x/a.b-#.json:[1 3] x/c-#.json:[2]]",
		`x/{{ .Metadata.GetCollection }}/`:      "map[x/a.b/#:[1 3] x/c/#:[2]]",
		`x/{{ .Metadata.GetCollection }}/.json`: "map[x/a.b/#.json:[1 3] x/c/#.json:[2]]",
		`x/all.json`:                            "map[x/all-#.json:[1 2 3]]",
	} {
		for _, once := range []string{"true", "false"} {
			m := newMemory(t)
			d := destination(t, settings(m.addr(), "format", "json", "key", key, "exactlyOnce", once))
			write(t, d, in("a.b", 7, "1"), in("c", 7, "2"), in("a.b", 8, "3"))
			if got := fmt.Sprint(m.payloads(t)); got != want {
				t.Errorf("%s, exactlyOnce %s: got %s, want %s", key, once, got, want)
			}
		}
	}
}

// TestRefusedKeys refuses records whose key would be outside the literal beginning of the template, and keys beyond
// their maximum number.
func TestRefusedKeys(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]record.Record{
		"..": in("..", 7, "x"), "climbing": in("../../x", 7, "x"), "empty": in("a//b", 7, "x"),
		"absolute": in("/a", 7, "x"), "control": in("a\nb", 7, "x"), "long": in(strings.Repeat("a/", 500), 7, "x"),
		"no text": in("\xff", 7, "x"), "no time": made("x", "x"), "third": in("c", 7, "x"),
	} {
		m := newMemory(t)
		d := destination(t, settings(m.addr(), "format", "json", "key", byKey, "prefixesPerHour", "2"))
		n, err := d.Write(t.Context(), []record.Record{in("a", 7, "1"), in("b", 7, "2"), bad, in("a", 7, "3")})
		if n != 2 || err == nil || !strings.Contains(err.Error(), "key") {
			t.Errorf("%s: wrote %d, %v", name, n, err)
		}
		if len(m.payloads(t)) != 2 {
			t.Errorf("%s: got %v", name, m.payloads(t))
		}
	}
}

// TestMaxRecords divides the records of each key into objects.
func TestMaxRecords(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	d := destination(t, settings(m.addr(), "format", "json", "key", byKey, "object.maxRecords", "2"))
	var records []record.Record
	for i := range 5 {
		records = append(records, in("a", 7, fmt.Sprint("a", i)), in("b", 7, fmt.Sprint("b", i)))
	}
	write(t, d, records[:9]...)
	if len(m.objects) != 5 {
		t.Errorf("there are %d objects, want 3 of a and 2 of b", len(m.objects))
	}
	for _, payloads := range m.payloads(t) {
		if !slices.IsSorted(payloads) {
			t.Errorf("got %v", payloads)
		}
	}
}

// TestOnceBehindRefusal writes a record once that was written before another one in the batch was refused.
func TestOnceBehindRefusal(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	m.fate = func(_, _, body string) fate {
		if strings.Contains(body, "huge") {
			return tooLarge
		}
		return answered
	}
	d := destination(t, settings(m.addr(), "format", "json", "key", byKey, "exactlyOnce", "true", "object.maxBytes", "1"))
	records := []record.Record{in("a", 7, "1"), in("b", 7, "huge"), in("a", 7, "2"), in("b", 7, "3")}
	if n, err := d.Write(t.Context(), records); n != 1 || err == nil {
		t.Fatalf("wrote %d: %v", n, err)
	}
	write(t, d, records[2:]...)
	want := "map[data/a/2026-02-28/requests-#.v1.jsonl:[1 2] data/b/2026-02-28/requests-#.v1.jsonl:[3]]"
	if got := fmt.Sprint(m.payloads(t)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestOnceByKey writes each record once, to an object with the right key, while requests fail before and after they are
// carried out, or are carried out after the destination has been replaced, and while a former destination still writes.
// Restarts repeat records, divided into other batches.
func TestOnceByKey(t *testing.T) {
	t.Parallel()
	for _, name := range [][]string{{"prefix", "data"}, {"key", byKey}, {"prefix", "{{ .Metadata.GetCollection }}"}} {
		for seed := range *seeds {
			t.Run(fmt.Sprintf("%s %d", name[1], seed), func(t *testing.T) {
				t.Parallel()
				onceByKey(t, seed, name...)
			})
		}
	}
}

func onceByKey(t *testing.T, seed uint64, name ...string) {
	random := rand.New(rand.NewPCG(seed, 11))
	m := newMemory(t)
	faults := true
	m.fate = func(method, _, _ string) fate {
		switch {
		case !faults || random.IntN(30) > 0:
			return answered
		case method == http.MethodPut || method == http.MethodDelete:
			return []fate{refused, lost, delayed}[random.IntN(3)]
		}
		return refused
	}
	const total = 80
	var records []record.Record
	for i := range total {
		r := in(string(rune('a'+random.IntN(3))), 7, fmt.Sprintf("%03d", i))
		r.Position = record.Position(fmt.Sprint(i))
		records = append(records, r)
	}
	set := append([]string{"format", "json", "exactlyOnce", "true", "retry.timeout", "0s"}, name...)
	open := func() sdk.Destination {
		for {
			d := destinationOf(t, settings(m.addr(), set...))
			if d.Open(t.Context()) == nil {
				return d
			}
		}
	}
	next := func(from int) []record.Record { return records[from:min(total, from+1+random.IntN(12))] }
	d := open()
	for at := 0; at < total; {
		n, err := d.Write(t.Context(), next(at))
		at += n
		if err == nil && random.IntN(8) > 0 {
			continue
		}
		former, reached := d, at
		at = max(0, at-random.IntN(10)) // the position is saved later
		d = open()
		if random.IntN(2) == 0 {
			m.settle()
		}
		if err == nil && reached < total && random.IntN(2) == 0 { // the former destination does not know that it is replaced
			_, _ = former.Write(t.Context(), next(reached))
		}
	}
	faults = false
	for _, when := range []string{"at the end", "after the delayed requests", "after a restart"} {
		var all, want []string
		for key, payloads := range m.payloads(t) {
			for _, p := range payloads {
				all = append(all, p)
				i := slices.IndexFunc(records, func(r record.Record) bool { raw, _ := r.After.Raw(); return string(raw) == p })
				collection := records[i].Metadata.Get(record.KeyCollection)
				if name[1] != "data" && !strings.Contains(key, collection+"/") {
					t.Errorf("%s: record %s of %s is in %s", when, p, collection, key)
				}
			}
		}
		for i := range total {
			want = append(want, fmt.Sprintf("%03d", i))
		}
		if slices.Sort(all); !slices.Equal(all, want) {
			t.Errorf("%s: got  %v\nwant %v", when, all, want)
		}
		if when != "at the end" {
			open() // publishes staged objects
		}
		m.settle()
	}
	m.wantNoContent(t)
}

// wantNoContent checks that all staged objects are empty.
func (m *memory) wantNoContent(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, o := range m.objects {
		if strings.Contains(key, "/staged/") && o.body != "" {
			t.Errorf("%s has content", key)
		}
	}
}

const single = "data/a/2026-02-28/requests-#.v1.jsonl"

// TestPublished publishes the object of a run that ended before it did: at the next start, and when a run that started
// before finds the number taken.
func TestPublished(t *testing.T) {
	t.Parallel()
	for _, isOpen := range []bool{true, false} {
		m := newMemory(t)
		set := func() map[string]string {
			return settings(m.addr(), "format", "json", "key", byKey, "exactlyOnce", "true", "retry.timeout", "0s")
		}
		write(t, destination(t, set()), in("a", 7, "0")) // the first number is the time
		var other sdk.Destination
		if isOpen {
			other = destination(t, set())
		}
		dies := destination(t, set())
		m.fate = func(method, key, _ string) fate {
			if method == http.MethodPut && strings.HasPrefix(key, "data/") {
				return refused
			}
			return answered
		}
		if n, err := dies.Write(t.Context(), []record.Record{in("a", 7, "1"), in("a", 7, "2")}); n != 0 || err == nil {
			t.Fatalf("wrote %d: %v", n, err)
		}
		m.fate = nil
		if other == nil {
			other = destination(t, set())
			if got := fmt.Sprint(m.payloads(t)); got != "map["+single+":[0 1 2]]" {
				t.Errorf("after a start: got %s", got)
			}
		}
		write(t, other, in("a", 7, "2"), in("a", 7, "3"))
		if got := fmt.Sprint(m.payloads(t)); got != "map["+single+":[0 1 2 3]]" {
			t.Errorf("open before: %t: got %s", isOpen, got)
		}
		m.wantNoContent(t)
	}
}

// TestPublishedMeanwhile leaves a staged object alone that another run publishes at the same time.
func TestPublishedMeanwhile(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	set := settings(m.addr(), "format", "json", "key", byKey, "exactlyOnce", "true", "retry.timeout", "0s")
	m.fate = func(method, key, _ string) fate {
		if method == http.MethodPut && strings.HasPrefix(key, "data/") {
			return refused
		}
		return answered
	}
	if _, err := destination(t, set).Write(t.Context(), []record.Record{in("a", 7, "1")}); err == nil {
		t.Fatal("the write succeeded")
	}
	m.fate = func(method, key, _ string) fate {
		if method == http.MethodGet && strings.Contains(key, "/staged/") {
			o := m.objects[key]
			o.header.Del("X-Amz-Meta-Conduit-Key")
			m.objects["data/other.json"], m.objects[key] = object{body: o.body}, object{header: o.header}
		}
		return answered
	}
	destination(t, set)
	if _, isThere := m.objects[""]; isThere || fmt.Sprint(m.payloads(t)) != "map[data/other.json:[1]]" {
		t.Errorf("got %v, and an object without a key: %t", m.payloads(t), isThere)
	}
}

// TestOnceOfOneRun writes a record that has the position of an earlier one again, if nothing failed in between.
func TestOnceOfOneRun(t *testing.T) {
	t.Parallel()
	m := newMemory(t)
	d := destination(t, settings(m.addr(), "format", "json", "key", byKey, "exactlyOnce", "true"))
	for _, payload := range []string{"1", "2", "1"} {
		write(t, d, in("a", 7, payload))
	}
	if got := fmt.Sprint(m.payloads(t)); got != "map["+single+":[1 2 1]]" {
		t.Errorf("got %s", got)
	}
}

// TestStagedObjectsAreRemoved keeps the staged objects of the last numbers only, and removes all with the pipeline.
func TestStagedObjectsAreRemoved(t *testing.T) {
	defer s3.SetKeptStages(3)()
	m := newMemory(t)
	set := func() map[string]string {
		return settings(m.addr(), "format", "json", "key", byKey, "exactlyOnce", "true")
	}
	d := destination(t, set())
	for i := range 130 {
		write(t, d, in("a", 7, fmt.Sprint(i)))
	}
	d = destination(t, set()) // knows the staged objects of before
	for i := range 130 {
		write(t, d, in("a", 7, fmt.Sprint(130+i)))
	}
	var checkpoint, last int64
	var staged []int64
	for key := range m.objects {
		n, _ := strconv.ParseInt(strings.TrimLeft(number.FindString(key), "0"), 10, 64)
		if last = max(last, n); strings.HasSuffix(key, ".all") {
			checkpoint = max(checkpoint, n)
		}
		if strings.Contains(key, "/staged/") {
			staged = append(staged, n)
		}
	}
	slices.Sort(staged)
	if want := last - (checkpoint - 3) + 1; int64(len(staged)) != want || staged[0] != checkpoint-3 {
		t.Errorf("%d staged objects are left from %d on, want %d from %d on", len(staged), staged[0], want, checkpoint-3)
	}
	if err := d.LifecycleOnDeleted(t.Context(), set()); err != nil {
		t.Fatal(err)
	}
	for key := range m.objects {
		if !strings.HasPrefix(key, "data/") {
			t.Errorf("%s is left", key)
		}
	}
}
