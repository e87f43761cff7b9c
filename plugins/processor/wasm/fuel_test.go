package wasm_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/conduit-agent/conduit/plugins/processor/wasm/fuel"
)

const header = "\x00asm\x01\x00\x00\x00"

// Parts of a module that imports two functions and a global, and has one function.
const (
	types   = "\x01\x0a\x02" + "\x60\x02\x7f\x7f\x01\x7f" + "\x60\x00\x00"
	imports = "\x02\x1a\x03" + "\x01e\x01o\x00\x01" + "\x04host\x04next\x00\x00" + "\x01e\x01g\x03\x7f\x00"
	funcs   = "\x03\x02\x01\x01"
	globals = "\x06\x06\x01\x7e\x01\x42\x05\x0b"
)

// check is the code inserted in a loop of a module whose counter is the global with this index.
func check(counter string) string {
	return "\x23" + counter + "\x41\x01\x6b\x24" + counter + "\x23" + counter + "\x45\x04\x40\x41\x7f\x41\x00\x10\x01\x24" + counter + "\x0b"
}

func section(id byte, content string) string { return string([]byte{id, byte(len(content))}) + content }

func code(body string) string {
	return section(10, "\x01"+string([]byte{byte(len(body))})+body)
}

func TestMeter(t *testing.T) {
	const counterOnly, counterToo = "\x06\x06\x01\x7f\x01\x41\x01\x0b", "\x06\x0b\x02\x7e\x01\x42\x05\x0b\x7f\x01\x41\x01\x0b"
	start := header + types + imports + funcs
	for name, c := range map[string]struct{ in, want string }{
		"no code":        {header, header},
		"no loop":        {start + code("\x00\x41\x03\x1a\x0b"), start + counterOnly + code("\x00\x41\x03\x1a\x0b")},
		"loop":           {start + code("\x00\x03\x40\x0c\x00\x0b\x0b"), start + counterOnly + code("\x00\x03\x40"+check("\x01")+"\x0c\x00\x0b\x0b")},
		"with globals":   {start + globals + code("\x00\x03\x40\x0b\x0b"), start + counterToo + code("\x00\x03\x40"+check("\x02")+"\x0b\x0b")},
		"custom section": {header + section(0, "\x04name") + start[len(header):] + code("\x00\x0b"), start + counterOnly + code("\x00\x0b")},
		// Each constant contains the opcode of a loop.
		"constants": {start + code("\x00\x41\x03\x42\x03\x43\x03\x03\x03\x03\x44\x03\x03\x03\x03\x03\x03\x03\x03\xfd\x0c0123456789\x03\x03\x03\x03\x03\x03\x00\x0b"),
			start + counterOnly + code("\x00\x41\x03\x42\x03\x43\x03\x03\x03\x03\x44\x03\x03\x03\x03\x03\x03\x03\x03\xfd\x0c0123456789\x03\x03\x03\x03\x03\x03\x00\x0b")},
		"table of labels, lists of types, bulk memory": {start + code("\x00\x0e\x02\x03\x03\x03\x1c\x01\x7f\xfc\x0a\x03\x03\x28\x03\x03\x0b"),
			start + counterOnly + code("\x00\x0e\x02\x03\x03\x03\x1c\x01\x7f\xfc\x0a\x03\x03\x28\x03\x03\x0b")},
	} {
		got, err := fuel.Meter([]byte(c.in), "host", "next")
		if err != nil || !bytes.Equal(got, []byte(c.want)) {
			t.Errorf("%s:\ngot  %x %v\nwant %x", name, got, err, c.want)
		}
	}
}

// A module can neither access the counter nor run without it.
func TestMeterRefuses(t *testing.T) {
	start := header + types + imports + funcs
	for name, c := range map[string]struct{ in, want string }{
		"another file":       {"hello, world", "invalid magic number"},
		"cut":                {start[:len(start)-1], "it ends too early"},
		"cut code":           {start + code("\x00\x41"), "cannot read function 0: it ends too early"},
		"reads the counter":  {start + code("\x00\x23\x01\x1a\x0b"), "cannot read function 0: it uses a global that there is not"},
		"writes the counter": {start + globals + code("\x00\x41\x00\x24\x02\x0b"), "cannot read function 0: it uses a global that there is not"},
		"exceptions":         {start + code("\x00\x06\x40\x0b\x0b"), "cannot read function 0: instruction 0x06 is not known"},
		"bad prefix":         {start + code("\x00\xfc\x7f\x0b"), "cannot read function 0: an instruction is not known"},
		"long number":        {header + "\x01\xff\xff\xff\xff\xff\x00", "a number is too long"},
	} {
		if got, err := fuel.Meter([]byte(c.in), "host", "next"); err == nil || err.Error() != c.want {
			t.Errorf("%s: %x, error is %v, want %s", name, got, err, c.want)
		}
	}
	_, err := fuel.Meter([]byte(start+code("\x00\x0b")), "host", "other")
	if !errors.Is(err, fuel.ErrNoImport) {
		t.Errorf("without the import the error is %v", err)
	}
}

// Reading any file ends.
func FuzzMeter(f *testing.F) {
	f.Add([]byte(header + types + imports + funcs + globals + code("\x00\x03\x40\x0e\x01\x00\x00\x0b\x0b")))
	f.Add([]byte(header + types + imports + funcs + code("\x00\x0e\xff\xff\xff\xff\x0f")))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		once, err := fuel.Meter(b, "host", "next")
		if !bytes.Equal(b, before) {
			t.Fatal("it changed what it was given")
		}
		if err != nil {
			return
		}
		if _, err := fuel.Meter(once, "host", "next"); err != nil {
			t.Fatalf("what it returned is no module: %v", err)
		}
	})
}
