package charset_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/charset"
)

func TestStandard(t *testing.T) {
	for _, test := range []struct{ label, name, text, want, invalid string }{
		{"utf-8", "utf-8", "Zoë 😀", "Zoë 😀", ""}, {" UTF8\n", "utf-8", "a\xff\xe2\x82b", "a\ufffd\ufffdb",
			"byte 2 is 0xff"},
		{"utf-8", "utf-8", "\xe2\x82", "\ufffd", "byte 1"}, {"utf-8", "utf-8", "\xf0\x9f\x98", "\ufffd", "byte 1"},
		{"utf-8", "utf-8", "\xed\xa0\x80", "\ufffd\ufffd\ufffd", "byte 1"},
		{"utf-8", "utf-8", "\xf0\x80\x80", "\ufffd\ufffd\ufffd", "byte 1"},
		{"utf-8", "utf-8", "\xc3(", "\ufffd(", "byte 1"},
		{"utf-16", "utf-16le", "a\x00=\xd8\x00\xde", "a😀", ""},
		{"utf-16be", "utf-16be", "\x00a\xd8=", "a\ufffd", "byte 3"}, {"utf-16le", "utf-16le", "a", "\ufffd", "byte 1"},
		{"utf-16le", "utf-16le", "\x00\xdea\x00", "\ufffda", "byte 1"},
		{"utf-16le", "utf-16le", "\x00\xd8a\x00", "\ufffda", "byte 1"},
		{"latin1", "windows-1252", "Zo\xeb \x80\x81", "Zoë €\u0081", ""},
		{"ascii", "windows-1252", "\xeb", "ë", ""}, {"iso-8859-15", "iso-8859-15", "\xa4", "€", ""},
		{"koi8-r", "koi8-r", "\xc1", "а", ""}, {"windows-1253", "windows-1253", "\xaa", "\ufffd", "byte 1 is 0xaa"},
		{"cp866", "ibm866", "\x80", "А", ""}, {"latin5", "windows-1254", "\xdd", "İ", ""},
		{"tis-620", "windows-874", "\xa1", "ก", ""}, {"mac", "macintosh", "\x80", "Ä", ""},
	} {
		e := charset.Standard(test.label)
		if e == nil || e.Name() != test.name {
			t.Errorf("%q is %+v", test.label, e)
			continue
		}
		out, rest, err := e.Decode([]byte(test.text), false)
		if string(out) != test.want || len(rest) > 0 || (err == nil) != (test.invalid == "") || err != nil &&
			!strings.Contains(err.Error(),
				test.invalid) {
			t.Errorf("%q in %s: %q, %q, %v; want %q", test.text, test.label, out, rest, err, test.want)
		}
		// The same text in single bytes.
		var all, kept []byte
		for i := range len(test.text) {
			out, rest, _ = e.Decode(append(kept, test.text[i]), true)
			all, kept = append(all, out...), append([]byte(nil), rest...)
		}
		if out, _, _ = e.Decode(kept, false); string(append(all, out...)) != test.want {
			t.Errorf("%q in %s in pieces: %q, want %q", test.text, test.label, append(all, out...), test.want)
		}
	}
	for _, label := range []string{"", "shift_jis", "utf-7", "utf-32", "utf 8"} {
		if e := charset.Standard(label); e != nil {
			t.Errorf("%q is %s", label, e.Name())
		}
	}
}

// All named encodings have a table.
func TestStandardHasTables(t *testing.T) {
	for _, name := range strings.Fields("ibm866 iso-8859-2 iso-8859-3 iso-8859-4 iso-8859-5 iso-8859-6 iso-8859-7 " +
		"iso-8859-8 iso-8859-10 iso-8859-13 iso-8859-14 " +
		"iso-8859-15 iso-8859-16 koi8-r koi8-u macintosh windows-874 windows-1250 windows-1251 windows-1252 " +
		"windows-1253 windows-1254 windows-1255 windows-1256 windows-1257 windows-1258") {
		if out, _, err := charset.Standard(name).Decode([]byte("a\xe4"), false); err != nil || len(out) < 3 ||
			out[0] != 'a' {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
}
