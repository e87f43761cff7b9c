package record_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/record"
)

// TestReadable writes records in the readable form, from the record and from its JSON form, and parses them again.
func TestReadable(t *testing.T) {
	for name, c := range map[string]struct {
		raw  string
		want string
	}{
		"text":                   {"hello", `"hello"`},
		"empty":                  {"", `""`},
		"lines":                  {"a\nb\t\"c\"", `"a\nb\t\"c\""`},
		"characters":             {"Zürich 東京", `"Zürich 東京"`},
		"JSON":                   {`{"a":1}`, `"{\"a\":1}"`},
		"no UTF-8":               {"\xff\xd8", `"base64:/9g="`},
		"looks like base64":      {"aGVsbG8=", `"aGVsbG8="`},
		"begins with the prefix": {"base64:x", `"base64:YmFzZTY0Ong="`},
		"markup":                 {`<a b="\u003c">&amp;</a>`, `"<a b=\"\\u003c\">&amp;</a>"`},
		"NUL":                    {"a\x00b", `"a\u0000b"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := record.Record{Position: record.Position("p" + c.raw),
				Operation: record.OperationUpdate, Metadata: record.NewMetadata(map[string]string{"a": "b"}),
				Key: record.Raw([]byte(c.raw)), Before: record.Structured(map[string]any{"n": 1.5, "text": "base64:x"}),
				After: record.Raw([]byte(c.raw))}
			text, err := record.AppendReadable(nil, &r)
			if err != nil {
				t.Fatal(err)
			}
			var got struct{ Key, Payload json.RawMessage }
			if err := json.Unmarshal(text, &got); err != nil || string(got.Key) != c.want {
				t.Errorf("key %s, want %s: %v", got.Key, c.want, err)
			}
			again, err := record.ParseReadable(text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r, again); diff != "" {
				t.Errorf("it comes back changed (-want +got):\n%s", diff)
			}
			stored, err := record.AppendJSON(nil, &r)
			if err != nil {
				t.Fatal(err)
			}
			if from, err := record.Readable(stored); err != nil || !bytes.Equal(from, text) {
				t.Errorf("of the stored form it is %s, want %s: %v", from, text, err)
			}
		})
	}
}

// TestReadableNested writes bytes within structured data, as in a logged dead letter.
func TestReadableNested(t *testing.T) {
	r := record.Record{Operation: record.OperationCreate,
		After: record.Structured(map[string]any{"position": []byte("7"),
			"list": []any{[]byte("\xff"), "x", 1}, "none": []byte(nil)})}
	text, err := record.AppendReadable(nil, &r)
	const want = `{"position":null,"operation":"create","metadata":{},"key":null,"payload":{"before":null,` +
		`"after":{"list":["base64:/w==","x",1],"none":null,"position":"7"}}}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
}

func TestBadReadable(t *testing.T) {
	for _, text := range []string{`{"position":"base64:*","payload":{}}`, `{"key":7}`, `{"payload":{"after":[]}}`,
		`{"payload":{"after":true}}`, `[]`, `{`, `{} {}`,
		`{"payloads":{}}`, `{"operation":"made"}`, `{"metadata":{"a":1}}`} {
		if r, err := record.ParseReadable([]byte(text)); err == nil {
			t.Errorf("%s is %+v", text, r)
		}
	}
}
