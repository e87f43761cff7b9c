package sqlsink_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/sqlsink"
	"github.com/conduit-agent/conduit/plugins/record"
)

// FuzzObject checks that raw payloads are decoded as by encoding/json.
func FuzzObject(f *testing.F) {
	for _, s := range []string{`{}`, ` { "a" : 1 , "b":"x" } `, `{"a":-0.5,"a":null}`, `{"a":01}`, `{"a":1e3}`,
		`{"a":"\n"}`, `{"a":[1,{"b":2}]}`, `{"a":true,"b":false}`,
		`{"a":tru}`, `{"a":1}x`, `{"a":1`, `{"a":-}`, `{"a":1.}`, "{\"a\":\"\x00\"}", "{\"\xff\":1}", `[]`, `1`,
		`null`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		var want map[string]any
		wantErr := d.Decode(&want)
		got, err := sqlsink.Object(record.Raw(b))
		if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%q is read as %v: %v, want %v: %v", b, got, err, want, wantErr)
		}
	})
}
