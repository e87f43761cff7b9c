package javascript_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Random changes of a wrapped object have the same result as those of an object of the script.
func TestEditsAreThoseOfAnObject(t *testing.T) {
	t.Parallel()
	const script = `function process(rec) {
		let wrapped = rec.Payload.After, plain = Object.assign({}, wrapped), n = wrapped.seed
		function random(limit) { n = (n * 1103515245 + 12345) % 2147483648; return Math.floor(n / 65536) % limit }
		for (let i = 0; i < 400; i++) {
			let key = "k" + random(1 + random(24))
			if (random(3) == 0) { delete wrapped[key]; delete plain[key] } else { wrapped[key] = plain[key] = i }
			if (wrapped[key] !== plain[key] || key in wrapped != key in plain) throw new Error("at " + i + " of " + key)
		}
		let keys = Object.keys(plain).sort()
		if (Object.keys(wrapped).join() != keys.join()) throw new Error(Object.keys(wrapped) + " for " + keys)
		rec.Key = JSON.stringify(plain)
		return rec
	}`
	p := open(t, map[string]string{"script": script}, nil)
	for seed := range int64(100) {
		in := map[string]any{"seed": seed}
		for i := range seed % 12 {
			in[fmt.Sprint("k", i)] = -i
		}
		fate, r := feed(t, p, record.Record{Position: position, After: record.Structured(in)})
		if fate.Err != nil {
			t.Fatalf("seed %d: %v", seed, fate.Err)
		}
		key, _ := r.Key.Raw()
		after, _ := r.After.Structured()
		got, err := json.Marshal(after)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(decoded(t, key), decoded(t, got)); diff != "" {
			t.Errorf("seed %d: the record differs from the object:\n%s", seed, diff)
		}
	}
}

func decoded(t *testing.T, b []byte) (m map[string]any) {
	t.Helper()
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// A record is refused as it came, whatever the script changed before the change that is an error.
func TestLateRefusalRevertsChanges(t *testing.T) {
	t.Parallel()
	for _, script := range []string{
		`rec.Payload.After.a = 2; delete rec.Payload.After.b; rec.Payload.After.new = 1; rec.Payload.After.c.d = 5; ` +
			`rec.Payload.After.z = {f: () => 1}`,
		`rec.Key.k = 2; rec.Payload.Before.x = 2; rec.Payload.After = [() => 1]`,
		`rec.Key.k = 2; rec.Payload.Before.list.push(3); rec.Payload.After.c.e = {f: () => 1}`,
		`rec.Payload.After.a = 2; rec.Position = "other"`,
		`rec.Payload.After.a = 2; throw new Error("x")`,
	} {
		made := func() record.Record {
			return record.Record{Position: position, Operation: record.OperationUpdate,
				Metadata: record.Metadata{{Key: "m", Value: "1"}}, Key: record.Structured(map[string]any{"k": 1}),
				Before: record.Structured(map[string]any{"x": 1, "list": []any{1, 2}}),
				After:  record.Structured(map[string]any{"a": 1, "b": "2", "c": map[string]any{"d": 4}})}
		}
		fate, got := process(t, "function process(rec) { "+script+"; rec.Metadata.m = '2'; return rec }", made())
		if fate.Err == nil {
			t.Errorf("%s: no error", script)
		}
		equal(t, got, made())
	}
}
