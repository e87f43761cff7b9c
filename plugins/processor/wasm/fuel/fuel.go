// Package fuel rewrites WebAssembly modules so that their loops periodically ask the host whether to continue. The
// machine code of a module cannot be interrupted: a guest in an endless loop would run forever, and hold up the garbage
// collector.
//
// A counter is added to the module, which every loop decrements at its head. At zero the loop calls a function that the
// module imports, with arguments that no other call has. The result of the function is the next value of the counter.
package fuel

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Version is the version of the output of Meter. It changes when Meter does.
const Version = 1

// At and Space are the arguments of the call from a loop.
const (
	At    = 0xffffffff
	Space = 0
)

// ErrNoImport reports that a module does not import the function that its loops must call.
var ErrNoImport = errors.New("it does not import the function")

// Sections of a module.
const (
	sectionImport = 2
	sectionGlobal = 6
	sectionCode   = 10
)

const header = "\x00asm\x01\x00\x00\x00"

// Meter returns the module with a check at the head of every loop, which calls the function name of the imported module
// from. The function takes two i32 and returns an i32. Custom sections are left out. Meter validates only the parts of
// the module that it needs: an invalid module stays invalid.
func Meter(content []byte, from, name string) ([]byte, error) {
	m := metered{in: reader{b: content}, out: make([]byte, 0, len(content)+len(content)/8)}
	if string(m.in.take(len(header))) != header {
		return nil, errors.New("invalid magic number")
	}
	m.out = append(m.out, header...)
	for m.in.err == nil && m.in.at < len(content) {
		id := m.in.byte()
		section := reader{b: m.in.take(int(m.in.number()))}
		if m.in.err != nil {
			break
		}
		if err := m.section(id, section, from, name); err != nil {
			return nil, err
		}
	}
	return m.out, m.in.err
}

// metered is a module that is being rewritten.
type metered struct {
	in        reader
	out       []byte
	function  uint32 // index of the function that loops call
	imported  bool   // the module imports the function
	globals   uint32 // number of globals before the counter, which is the index of the counter
	counted   bool   // the counter was added
	functions uint32 // number of imported functions
}

func (m *metered) section(id byte, s reader, from, name string) error {
	if id == 0 {
		return nil
	}
	if id > sectionGlobal && id < sectionCode+3 && id != 13 && !m.counted { // 13, tags, comes before globals
		if err := m.addGlobals(reader{b: []byte{0}}); err != nil {
			return err
		}
	}
	switch id {
	case sectionImport:
		if err := m.imports(s, from, name); err != nil {
			return err
		}
	case sectionGlobal:
		return m.addGlobals(s)
	case sectionCode:
		if !m.imported {
			return fmt.Errorf("%w %s.%s", ErrNoImport, from, name)
		}
		return m.code(s)
	}
	m.out = appendSection(m.out, id, s.b)
	return nil
}

func appendSection(out []byte, id byte, content []byte) []byte {
	out = binary.AppendUvarint(append(out, id), uint64(len(content)))
	return append(out, content...)
}

// imports finds the function to call and counts the imports.
func (m *metered) imports(s reader, from, name string) error {
	for n := s.number(); n > 0 && s.err == nil; n-- {
		module, field := s.take(int(s.number())), s.take(int(s.number()))
		switch kind := s.byte(); kind {
		case 0: // function: its type
			if string(module) == from && string(field) == name {
				m.function, m.imported = m.functions, true
			}
			m.functions++
			s.number()
		case 1: // table: element type, limits
			s.byte()
			s.limits()
		case 2: // memory
			s.limits()
		case 3: // global: type, mutability
			m.globals++
			s.take(2)
		default:
			return fmt.Errorf("cannot read its imports: kind %d is not known", kind)
		}
	}
	if s.err != nil {
		return fmt.Errorf("cannot read its imports: %w", s.err)
	}
	return nil
}

// addGlobals writes the section of globals with the counter, which starts at 1, after the globals of the module.
func (m *metered) addGlobals(s reader) error {
	n := s.number()
	if s.err != nil {
		return fmt.Errorf("cannot read its globals: %w", s.err)
	}
	content := append(binary.AppendUvarint(nil, n+1), s.b[s.at:]...)
	content = append(content, 0x7f, 1, opI32Const, 1, opEnd) // a mutable i32
	m.globals += uint32(n)
	m.counted = true
	m.out = appendSection(m.out, sectionGlobal, content)
	return nil
}

// check returns the code to insert at the head of every loop.
func (m *metered) check() []byte {
	counter, function := binary.AppendUvarint(nil, uint64(m.globals)), binary.AppendUvarint(nil, uint64(m.function))
	var b []byte
	global := func(op byte) { b = append(append(b, op), counter...) }
	global(opGlobalGet)
	b = append(b, opI32Const, 1, opI32Sub)
	global(opGlobalSet)
	global(opGlobalGet)
	b = append(b, opI32Eqz, opIf, 0x40, opI32Const, 0x7f, opI32Const, Space, opCall)
	b = append(b, function...)
	global(opGlobalSet)
	return append(b, opEnd)
}

func (m *metered) code(s reader) error {
	check := m.check()
	n := s.number()
	content := binary.AppendUvarint(make([]byte, 0, len(s.b)+len(s.b)/8), n)
	var body []byte
	for i := range n {
		f := reader{b: s.take(int(s.number()))}
		if s.err != nil {
			break
		}
		var err error
		if body, err = m.body(body[:0], f, check); err != nil {
			return fmt.Errorf("cannot read function %d: %w", i, err)
		}
		content = binary.AppendUvarint(content, uint64(len(body)))
		content = append(content, body...)
	}
	if s.err != nil {
		return fmt.Errorf("cannot read its code: %w", s.err)
	}
	m.out = appendSection(m.out, sectionCode, content)
	return nil
}

// body appends the function f to dst, with the check at the head of every loop.
func (m *metered) body(dst []byte, f reader, check []byte) ([]byte, error) {
	for n := f.number(); n > 0 && f.err == nil; n-- { // local variables: how many, and their type
		f.number()
		f.byte()
	}
	copied := 0
	for f.err == nil && f.at < len(f.b) {
		op := f.byte()
		switch immediates[op] {
		case unknown:
			return dst, fmt.Errorf("instruction 0x%02x is not known", op)
		case global:
			if f.number() >= uint64(m.globals) {
				return dst, errors.New("it uses a global that there is not")
			}
		default:
			f.skip(op)
		}
		if op == opLoop {
			dst = append(append(dst, f.b[copied:f.at]...), check...)
			copied = f.at
		}
	}
	return append(dst, f.b[copied:]...), f.err
}
