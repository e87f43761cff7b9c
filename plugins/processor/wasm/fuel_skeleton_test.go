package wasm_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/processor/wasm/fuel"
)

func TestSkeleton(t *testing.T) {
	const before = "\x00asm\x01\x00\x00\x00" + "\x01\x04\x01\x60\x00\x00" + "\x03\x03\x02\x00\x00"
	const data = "\x0b\x01\x00"
	got, err := fuel.Skeleton([]byte(before + "\x0a\x0b\x02" + "\x02\x00\x0b" + "\x06\x01\x01\x7f\x01\x01\x0b" + data))
	if want := before + "\x0a\x09\x02" + "\x03\x00\x00\x0b" + "\x03\x00\x00\x0b" + data; err != nil || string(got) != want {
		t.Errorf("got %q, error %v, want %q", got, err, want)
	}
	for content, want := range map[string]string{
		"\x00asm":               "magic number",
		before + "\x0a\x0b":     "ends too early",
		before + "\x0a\x01\x7f": "cannot read its code",
		before + "\x0a":         "ends too early",
	} {
		if _, err := fuel.Skeleton([]byte(content)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error is %v, want %q", content, err, want)
		}
	}
}
