package record_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/record"
)

// TestTextAsEncodingJSON tries each byte at each place of a word of eight bytes, with other bytes before and after it.
func TestTextAsEncodingJSON(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		for at := range 17 {
			text := strings.Repeat("~", at) + string([]byte{byte(c)}) + strings.Repeat(" ", 20-at)
			want, err := json.Marshal(text)
			if c >= utf8.RuneSelf { // bytes that are not text
				want, err = json.Marshal([]byte(text))
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := record.AppendValue(nil, text); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("got %s, %v, want %s", got, err, want)
			}
		}
	}
}

// TestBytesAsEncodingJSON tries all lengths around the step sizes, after other text.
func TestBytesAsEncodingJSON(t *testing.T) {
	t.Parallel()
	all := make([]byte, 0, 300)
	for i := range cap(all) {
		all = append(all, byte(i*37))
	}
	for n := range all {
		want, err := json.Marshal(all[:n])
		if err != nil {
			t.Fatal(err)
		}
		got, err := record.AppendValue([]byte("before"), all[:n:n])
		if err != nil || string(got) != "before"+string(want) {
			t.Fatalf("%d bytes: got %s, %v, want %s", n, got, err, want)
		}
	}
}
