package charset_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/charset"
)

func TestUTF8(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"", "Zoë", "Zoë"}, {"UTF-8", "\xef\xbb\xbfZoë", "Zoë"}, {"utf8", "", ""},
		{"iso-8859-1", "Zo\xeb\x80", "Zoë\u0080"}, {"ISO_8859-1", "\xeb", "ë"},
		{"latin1", "\xeb", "ë"}, {"windows-1252", "\x80", "€"},
		{"iso-8859-15", "\xa4", "€"}, {"koi8-r", "\xc1", "а"}, {"cp850", "\x84", "ä"}, {"us-ascii", "a", "a"},
		{"utf-16", "\xff\xfea\x00", "a"}, {"utf-16", "\xfe\xff\x00a", "a"},
		{"utf-16le", "=\xd8\x00\xde", "😀"}, {"utf-16be", "\x00a", "a"},
		{"iso-8859-1", "\xef\xbb\xbfë", "ë"}, // the mark takes precedence
	} {
		if got, err := charset.UTF8([]byte(test.text), test.name); err != nil || string(got) != test.want {
			t.Errorf("%q in %s: %q, %v; want %q", test.text, test.name, got, err, test.want)
		}
	}
}

func TestWhatCannotBeDecoded(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"", "Zo\xeb", "byte 3 is 0xeb"}, {"utf-8", "\xef\xbb\xbf\xff", "byte 1 is 0xff"},
		{"ascii", "aë", "byte 2 is 0xc3"},
		{"windows-1252", "\x81", "byte 1 is 0x81"}, {"utf-16le", "a", "1 bytes"},
		{"utf-16le", "\x00\xd8", "half of a character"},
		{"utf-16le", "\x00\xd8a\x00", "half of a character"},
		{"shift_jis", "a", `"shift_jis"`}, {"", "\xff\xfe\x00\x00a", "utf-32"},
	} {
		got, err := charset.UTF8([]byte(test.text), test.name)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q in %s: %q, %v; want an error with %s", test.text, test.name, got, err, test.want)
		}
	}
	if _, err := charset.UTF8(nil, "big5"); !errors.Is(err, charset.ErrUnknown) {
		t.Error(err)
	}
}

func TestOf(t *testing.T) {
	for contentType, want := range map[string]string{
		"": "", "application/json": "", "application/json; charset=ISO-8859-1": "ISO-8859-1",
		`text/plain;charset="utf-16"`: "utf-16",
	} {
		if got := charset.Of(contentType); got != want {
			t.Errorf("%s: %q", contentType, got)
		}
	}
}
