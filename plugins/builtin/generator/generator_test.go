package generator_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/generator"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func open(t testing.TB, pos string, settings map[string]string) sdk.Source {
	t.Helper()
	s := generator.Connector().NewSource()
	if err := s.Configure(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context(), record.Position(pos)); err != nil {
		t.Fatal(err)
	}
	return s
}

func read(t testing.TB, s sdk.Source, n int) []record.Record {
	t.Helper()
	var all []record.Record
	for len(all) < n {
		records, err := s.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, records...)
	}
	return all
}

func with(settings map[string]string, pairs ...string) map[string]string {
	out := map[string]string{"format.type": "structured", "format.options.id": "int"}
	if settings != nil {
		out = settings
	}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

func TestConfigureRefuses(t *testing.T) {
	tests := map[string]struct {
		settings map[string]string
		want     []string
	}{
		"nothing to generate": {map[string]string{"rate": "1"},
			[]string{`set "format.type" or "collections.*.format.type"`}},
		"rate and readTime": {with(nil, "rate", "1", "readTime", "1s"),
			[]string{`"rate" and "readTime" cannot both be set`}},
		"negative rate": {with(nil, "rate", "-1"),
			[]string{`"rate": must be a number greater than or equal to 0`}},
		"rate NaN":          {with(nil, "rate", "NaN"), []string{`"rate"`}},
		"rate Inf":          {with(nil, "rate", "Inf"), []string{`"rate"`}},
		"rate text":         {with(nil, "rate", "fast"), []string{`"rate"`}},
		"negative readTime": {with(nil, "readTime", "-1s"), []string{`"readTime"`}},
		"negative count":    {with(nil, "recordCount", "-1"), []string{`"recordCount"`}},
		"burst times": {with(nil, "burst.sleepTime", "-1s", "burst.generateTime", "0s"),
			[]string{`"burst.sleepTime": must be greater than or equal to 0`,
				`"burst.generateTime": must be greater than 0`}},
		"operation": {with(nil, "operations", "create,upsert"),
			[]string{`"operations": unknown operation "upsert"`}},
		"operation zero": {with(nil, "operations", "Operation(9)"), []string{`unknown operation`}},
		"format":         {with(nil, "format.type", "xml"), []string{`"format.type"`}},
		"no path":        {with(map[string]string{}, "format.type", "file"), []string{`"format.options.path"`}},
		"field type":     {with(nil, "format.options.a", "uuid"), []string{`"format.options.a": unknown type "uuid"`}},
		"empty type": {with(nil, "format.options.a", " "),
			[]string{`"format.options.a": the type of the field is empty`}},
		"unknown": {with(nil, "rat", "1"), []string{`"rat"`}},
		"in a collection": {with(nil, "collections.users.format.type", "raw", "collections.users.format.options.a", "x",
			"collections.orders.operations", "nope"),
			[]string{`"collections.users.format.options.a": unknown type "x"`,
				`"collections.orders.operations": unknown operation "nope"`,
				`"collections.orders.format.type": unknown format ""`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := generator.Connector().NewSource().Configure(t.Context(), tt.settings)
			if err == nil {
				t.Fatal("got no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want it to contain %s", err, want)
				}
			}
		})
	}
}

func TestStructured(t *testing.T) {
	s := open(t, "", map[string]string{
		"format.type":       "structured",
		"format.options.i":  "INT",
		"format.options.s":  "string",
		"format.options.t":  "Time",
		"format.options.b":  "bool",
		"format.options.du": "duration",
	})
	before := time.Now()
	words := map[string]bool{}
	for i, r := range read(t, s, 1000) {
		if want := strconv.Itoa(i + 1); string(r.Position) != want {
			t.Fatalf("got position %q, want %q", r.Position, want)
		}
		if r.Operation != record.OperationCreate || !r.Before.IsNone() {
			t.Fatalf("got %v with before %v", r.Operation, r.Before)
		}
		m, ok := r.After.Structured()
		if !ok || len(m) != 5 {
			t.Fatalf("got payload %v", r.After)
		}
		if n, ok := m["i"].(int64); !ok || n < 0 {
			t.Fatalf("got int %v", m["i"])
		}
		if _, ok := m["b"].(bool); !ok {
			t.Fatalf("got bool %v", m["b"])
		}
		if d, ok := m["du"].(time.Duration); !ok || d < 0 || d >= 1000*time.Second || d%time.Second != 0 {
			t.Fatalf("got duration %v", m["du"])
		}
		if at, ok := m["t"].(time.Time); !ok || at.Location() != time.UTC || at.Before(before.Add(-time.Second)) ||
			at.After(time.Now()) {
			t.Fatalf("got time %v", m["t"])
		}
		words[m["s"].(string)] = true
		key, ok := r.Key.Raw()
		if !ok || len(key) < 4 || len(key) > 9 {
			t.Fatalf("got key %q", key)
		}
		if ns, err := strconv.ParseInt(r.Metadata.Get(record.KeyCreatedAt), 10, 64); err != nil ||
			len(r.Metadata) != 1 || ns < before.UnixNano() {
			t.Fatalf("got metadata %v", r.Metadata)
		}
	}
	if len(words) < 900 {
		t.Errorf("got %d different words in 1000 records", len(words))
	}
}

func TestRaw(t *testing.T) {
	begin := time.Now()
	s := open(t, "", map[string]string{
		"format.type":      "raw",
		"format.options.i": "int", "format.options.s": "string", "format.options.t": "time",
		"format.options.b": "bool", "format.options.d": "duration", `format.options."<`: "bool",
	})
	for _, r := range read(t, s, 1000) {
		raw, ok := r.After.Raw()
		if !ok {
			t.Fatalf("got payload %v", r.After)
		}
		var m struct {
			I *int64
			S *string
			T *time.Time
			B *bool
			D *time.Duration
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		var quoted map[string]any
		if err := json.Unmarshal(raw, &quoted); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if _, ok := quoted["\"<"].(bool); !ok {
			t.Fatalf("no field with a quote in its name in %s", raw)
		}
		if m.I == nil || m.S == nil || m.T == nil || m.B == nil || m.D == nil || *m.S == "" || m.T.Before(begin) ||
			m.T.After(time.Now()) {
			t.Fatalf("got %s", raw)
		}
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "content")
	settings := map[string]string{"format.type": "file", "format.options.path": path}
	s := generator.Connector().NewSource()
	if err := s.Configure(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context(), nil); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("got %v, want that the file does not exist", err)
	}
	content := strings.Repeat("x", 300<<10)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	records := read(t, s, 1)
	if len(records) != 4 {
		t.Errorf("got %d records of 300 KiB at once, want 4", len(records))
	}
	records = append(records, read(t, s, 1)...)
	for i, r := range records {
		raw, _ := r.After.Raw()
		if string(raw) != content || string(r.Position) != strconv.Itoa(i+1) {
			t.Fatalf("got %d bytes at position %q", len(raw), r.Position)
		}
		raw[0] = '!' // the next record has its own payload
	}
}

func TestOperations(t *testing.T) {
	s := open(t, "", with(nil, "operations", "create, update,delete,snapshot"))
	count := map[record.Operation]int{}
	for _, r := range read(t, s, 2000) {
		count[r.Operation]++
		before := r.Operation == record.OperationUpdate || r.Operation == record.OperationDelete
		after := r.Operation != record.OperationDelete
		if r.Before.IsNone() == before || r.After.IsNone() == after {
			t.Fatalf("%v: before %v, after %v", r.Operation, r.Before, r.After)
		}
		if before && after && r.Before.Equal(r.After) {
			t.Fatal("before and after are the same")
		}
	}
	for op := record.OperationCreate; op <= record.OperationSnapshot; op++ {
		if count[op] < 300 {
			t.Errorf("%v: got %d of 2000", op, count[op])
		}
	}
}

func TestCollections(t *testing.T) {
	s := open(t, "", with(nil, "collections.users.format.type", "raw", "collections.users.operations", "delete",
		"collections.orders.format.type", "structured", "collections.orders.format.options.x", "int"))
	count := map[string]int{}
	positions := map[string]bool{}
	for _, r := range read(t, s, 2000) {
		name := r.Metadata.Get(record.KeyCollection)
		count[name]++
		positions[string(r.Position)] = true
		if _, raw := r.Before.Raw(); raw != (name == "users") {
			t.Fatalf("got %v in collection %q", r.Before, name)
		}
		if !slices.IsSortedFunc(r.Metadata, func(a, b record.Field) int { return strings.Compare(a.Key, b.Key) }) {
			t.Fatalf("metadata is not sorted: %v", r.Metadata)
		}
	}
	if len(count) != 3 || count[""] < 400 || count["users"] < 400 || count["orders"] < 400 {
		t.Errorf("got %v", count)
	}
	if len(positions) < 2000 {
		t.Errorf("positions are not unique")
	}
}

func TestMetadataMayGrow(t *testing.T) {
	s := open(t, "", with(nil, "collections.users.format.type", "raw"))
	records := read(t, s, 512)
	want := make([]record.Metadata, len(records))
	for i := range records {
		if spare := cap(records[i].Metadata) - len(records[i].Metadata); spare != 5 {
			t.Fatalf("got space for %d more in the metadata, want 5", spare)
		}
		want[i] = records[i].Metadata.Clone()
		for j := range 8 {
			want[i].Set("z"+strconv.Itoa(j), strconv.Itoa(i))
		}
	}
	for i := range records {
		for j := range 8 {
			records[i].Metadata.Set("z"+strconv.Itoa(j), strconv.Itoa(i))
		}
	}
	for i := range records {
		if !records[i].Metadata.Equal(want[i]) {
			t.Fatalf("record %d: got %v, want %v", i, records[i].Metadata, want[i])
		}
	}
}

func TestResume(t *testing.T) {
	for _, pos := range []string{"1", "511", "512", "12345"} {
		first := read(t, open(t, pos, with(nil)), 1)[0]
		n, _ := strconv.Atoi(pos)
		if got := string(first.Position); got != strconv.Itoa(n+1) {
			t.Errorf("got position %q behind %q", got, pos)
		}
	}
	s := generator.Connector().NewSource()
	if err := s.Configure(t.Context(), with(nil)); err != nil {
		t.Fatal(err)
	}
	for _, pos := range []string{"x", "-1", "1.5"} {
		if err := s.Open(t.Context(), record.Position(pos)); err == nil {
			t.Errorf("opened at position %q", pos)
		}
	}
}

func TestRecordCount(t *testing.T) {
	for _, tt := range []struct {
		pos  string
		left int
	}{{"", 700}, {"1", 699}, {"699", 1}, {"700", 0}, {"9000", 0}} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, tt.pos, with(nil, "recordCount", "700"))
			if got := len(read(t, s, tt.left)); got != tt.left {
				t.Errorf("behind %q: got %d records, want %d", tt.pos, got, tt.left)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if records, err := s.Read(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("behind %q: got %d records and %v behind the last one", tt.pos, len(records), err)
			}
		})
	}
}

func TestReadAfterEnd(t *testing.T) {
	s := open(t, "", with(nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestRecordsMayGrow(t *testing.T) {
	s := open(t, "", map[string]string{"format.type": "raw", "format.options.b": "bool"})
	records := read(t, s, 512)
	want := make([]record.Record, len(records))
	for i := range records {
		want[i] = records[i].Clone()
	}
	for _, r := range records {
		key, _ := r.Key.Raw()
		after, _ := r.After.Raw()
		for _, b := range [][]byte{r.Position, key, after} {
			_ = append(b, "!!!"...)
		}
	}
	for i := range records {
		if !records[i].Equal(want[i]) {
			t.Fatalf("got %v, want %v", records[i], want[i])
		}
	}
}
