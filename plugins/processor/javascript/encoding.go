package javascript

import (
	"fmt"
	"unicode/utf16"

	"github.com/dop251/goja"

	"github.com/conduit-agent/conduit/plugins/charset"
)

// textDecoder is the state of a TextDecoder in the script.
type textDecoder struct {
	encoding         *charset.Encoding
	fatal, ignoreBOM bool
	begun            bool   // the byte order mark was passed
	rest             []byte // the incomplete character at the end of the last chunk of a stream
}

// textEncoder is the state of a TextEncoder in the script.
type textEncoder struct{ _ int }

// defineEncoding defines TextDecoder and TextEncoder of the Encoding Standard, and the method text of raw data.
func (r *runtime) defineEncoding(n *natives) {
	raw := r.vm.CreateObject(r.vm.Get("Array").(*goja.Object).Get("prototype").(*goja.Object))
	r.call.raw = raw
	array := r.vm.Get("Uint8Array")
	decoders, decoder := n.class("TextDecoder", func(c goja.ConstructorCall) any {
		return n.newDecoder(c.Argument(0), c.Argument(1))
	})
	encoders, encoder := n.class("TextEncoder", func(goja.ConstructorCall) any { return &textEncoder{} })
	n.method(raw, "text", func(c goja.FunctionCall) goja.Value {
		bytes, ok := n.bytesOf(c.This)
		if !ok {
			panic(n.vm.NewTypeError("text is a method of raw data"))
		}
		return n.decode(&textDecoder{encoding: charset.Standard("utf-8"), fatal: true}, bytes, false)
	})
	n.method(decoder, "decode", func(c goja.FunctionCall) goja.Value {
		d := valueIn[*textDecoder](n, c.This, "TextDecoder")
		bytes, ok := n.bytesOf(c.Argument(0))
		if !ok {
			panic(n.vm.NewTypeError("TextDecoder.decode wants raw data, an ArrayBuffer, a typed array or a DataView"))
		}
		return n.decode(d, bytes, n.option(c.Argument(1), "stream"))
	})
	n.getter(decoder, "encoding", func(c goja.FunctionCall) goja.Value {
		return n.vm.ToValue(valueIn[*textDecoder](n, c.This, "TextDecoder").encoding.Name())
	})
	n.getter(decoder, "fatal", func(c goja.FunctionCall) goja.Value {
		return n.vm.ToValue(valueIn[*textDecoder](n, c.This, "TextDecoder").fatal)
	})
	n.getter(decoder, "ignoreBOM", func(c goja.FunctionCall) goja.Value {
		return n.vm.ToValue(valueIn[*textDecoder](n, c.This, "TextDecoder").ignoreBOM)
	})
	n.getter(encoder, "encoding", func(c goja.FunctionCall) goja.Value {
		valueIn[*textEncoder](n, c.This, "TextEncoder")
		return n.vm.ToValue("utf-8")
	})
	n.method(encoder, "encode", func(c goja.FunctionCall) goja.Value {
		valueIn[*textEncoder](n, c.This, "TextEncoder")
		if goja.IsUndefined(c.Argument(0)) {
			c.Arguments = []goja.Value{n.vm.ToValue("")}
		}
		text := n.stringOf(c.Argument(0))
		n.allocate(stringBytes(text))
		encoded, err := n.vm.New(array, n.vm.ToValue(n.vm.NewArrayBuffer([]byte(text.String()))))
		if err != nil {
			panic(err)
		}
		return encoded
	})
	n.method(encoder, "encodeInto", func(c goja.FunctionCall) goja.Value {
		valueIn[*textEncoder](n, c.This, "TextEncoder")
		text := n.stringOf(c.Argument(0)).String()
		to, ok := c.Argument(1).(*goja.Object)
		if ok {
			_, ok = exported(to).([]byte)
		}
		if !ok {
			panic(n.vm.NewTypeError("TextEncoder.encodeInto wants text and a Uint8Array"))
		}
		into, _ := n.bytesOf(to)
		read, written := encodeInto(text, into)
		result := n.vm.NewObject()
		_, _ = result.Set("read", read), result.Set("written", written) // result is a plain object, so this cannot fail
		return result
	})
	n.keep(r.vm.Set("TextDecoder", decoders))
	n.keep(r.vm.Set("TextEncoder", encoders))
}

// encodeInto writes the longest prefix of whole characters of text that fits into into. It returns the number of UTF-16
// code units read and the number of bytes written.
func encodeInto(text string, into []byte) (read, written int) {
	for i, r := range text {
		size := len(string(r))
		if written+size > len(into) {
			break
		}
		copy(into[written:], text[i:i+size])
		read, written = read+utf16.RuneLen(r), written+size
	}
	return read, written
}

// class returns a constructor of objects that hold a Go value, and their prototype.
func (n *natives) class(name string, construct func(goja.ConstructorCall) any) (constructor, prototype *goja.Object) {
	constructor = n.vm.ToValue(func(c goja.ConstructorCall) *goja.Object {
		o := n.vm.ToValue(construct(c)).(*goja.Object)
		n.keep(o.SetPrototype(c.This.Prototype()))
		return o
	}).(*goja.Object)
	n.keep(constructor.DefineDataProperty("name", n.vm.ToValue(name), goja.FLAG_FALSE, goja.FLAG_TRUE, goja.FLAG_FALSE))
	prototype = constructor.Get("prototype").(*goja.Object)
	n.keep(prototype.DefineDataPropertySymbol(goja.SymToStringTag,
		n.vm.ToValue(name), goja.FLAG_FALSE, goja.FLAG_TRUE, goja.FLAG_FALSE))
	return constructor, prototype
}

// method defines a method of a prototype.
func (n *natives) method(prototype *goja.Object, name string, f func(goja.FunctionCall) goja.Value) {
	o := n.vm.ToValue(f).(*goja.Object)
	n.keep(o.DefineDataProperty("name", n.vm.ToValue(name), goja.FLAG_FALSE, goja.FLAG_TRUE, goja.FLAG_FALSE))
	n.define(prototype, name, o)
}

// getter defines a read-only property of a prototype.
func (n *natives) getter(prototype *goja.Object, name string, f func(goja.FunctionCall) goja.Value) {
	n.keep(prototype.DefineAccessorProperty(name, n.vm.ToValue(f), nil, goja.FLAG_TRUE, goja.FLAG_TRUE))
}

// valueIn returns the Go value in an object of a class.
func valueIn[T any](n *natives, v goja.Value, class string) T {
	if o, ok := v.(*goja.Object); ok {
		if h, ok := exported(o).(T); ok {
			return h
		}
	}
	panic(n.vm.NewTypeError("this is no %s", class))
}

func (n *natives) newDecoder(label, options goja.Value) *textDecoder {
	name := "utf-8"
	if !goja.IsUndefined(label) {
		name = n.stringOf(label).String()
	}
	d := &textDecoder{encoding: charset.Standard(name),
		fatal: n.option(options, "fatal"), ignoreBOM: n.option(options, "ignoreBOM")}
	if d.encoding == nil {
		n.throw(fmt.Sprintf("the encoding %.50q is unknown: use utf-8, utf-16le, utf-16be or an encoding with one "+
			"byte per character, such as windows-1252",
			name))
	}
	return d
}

// option reports whether options is an object in which the named option is true.
func (n *natives) option(options goja.Value, name string) bool {
	o, ok := options.(*goja.Object)
	if !ok {
		return false
	}
	v := o.Get(name)
	return v != nil && v.ToBoolean()
}

// bytesOf returns the bytes of an object that has bytes, or no bytes for undefined. They are shared with the script.
func (n *natives) bytesOf(v goja.Value) ([]byte, bool) {
	o, ok := v.(*goja.Object)
	if !ok {
		return nil, v == nil || goja.IsUndefined(v)
	}
	switch w := exported(o).(type) {
	case *rawBytes:
		w.call.check()
		return w.b, true
	case goja.ArrayBuffer:
		return w.Bytes(), true
	case []byte:
		return w, true
	case goja.DynamicObject, goja.DynamicArray:
		return nil, false
	}
	buffer, ok := exportedValue(o.Get("buffer")).(goja.ArrayBuffer)
	if !ok || o.ClassName() != "Object" && o.ClassName() != "DataView" {
		return nil, false
	}
	offset, length := o.Get("byteOffset"), o.Get("byteLength")
	if offset == nil || length == nil {
		return nil, false
	}
	from, size, all := offset.ToInteger(), length.ToInteger(), buffer.Bytes()
	if from < 0 || size < 0 || from > int64(len(all)) || size > int64(len(all))-from {
		return nil, false
	}
	return all[from : from+size], true
}

// decode returns the text of bytes. If the bytes are invalid and d is fatal, it throws.
func (n *natives) decode(d *textDecoder, bytes []byte, stream bool) goja.Value {
	n.allocate(int64(len(bytes)))
	if len(d.rest) > 0 {
		bytes = append(d.rest, bytes...)
	}
	out, rest, err := d.encoding.Decode(bytes, stream)
	begun := d.begun
	d.begun, d.rest = stream && (d.begun || len(out) > 0), append([]byte(nil), rest...)
	if err != nil && d.fatal {
		d.begun, d.rest = false, nil
		panic(n.vm.NewTypeError("%s", err.Error()))
	}
	const mark = "\ufeff"
	if text := string(out); begun || d.ignoreBOM || d.encoding.Mark() == "" || len(text) < len(mark) ||
		text[:len(mark)] != mark {
		return n.vm.ToValue(text)
	}
	return n.vm.ToValue(string(out[len(mark):]))
}
