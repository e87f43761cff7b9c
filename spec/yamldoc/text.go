package yamldoc

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// MaxSize is the maximum size of a text in bytes.
const MaxSize = 1 << 20

// checkText returns data without a byte order mark, or the fault that keeps it from being text.
func checkText(data []byte) ([]byte, *Fault) {
	switch {
	case len(data) > MaxSize:
		return nil, textFault(nil, "the file is larger than %d bytes: split it into several files", MaxSize)
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}), bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		return nil, textFault(nil, "the file is encoded as UTF-16: save it as UTF-8")
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return nil, textFault(data[:i], "the file contains a NUL byte: it was not written completely, or it is not "+
			"UTF-8 text; save it again")
	}
	if i := invalidUTF8(data); i >= 0 {
		return nil, textFault(data[:i], "byte 0x%02x is not valid UTF-8: save the file as UTF-8", data[i])
	}
	return data, nil
}

// textFault returns a fault at the place right after before.
func textFault(before []byte, format string, args ...any) *Fault {
	line := 1 + bytes.Count(before, []byte("\n"))
	column := 1 + utf8.RuneCount(before[1+bytes.LastIndexByte(before, '\n'):])
	return &Fault{Mark: Mark{line, column}, Message: fmt.Sprintf(format, args...)}
}

// invalidUTF8 returns the index of the first byte that is not UTF-8, or -1.
func invalidUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}
