package javascript

import (
	"errors"
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
func (r *runtime) defineEncoding(b *bounds) error {
	raw := r.vm.CreateObject(r.vm.Get("Array").(*goja.Object).Get("prototype").(*goja.Object))
	r.call.raw = raw
	array := r.vm.Get("Uint8Array")
	decoders, decoder := b.class("TextDecoder", func(c goja.ConstructorCall) any {
		return b.newDecoder(c.Argument(0), c.Argument(1))
	})
	encoders, encoder := b.class("TextEncoder", func(goja.ConstructorCall) any { return &textEncoder{} })
	b.method(raw, "text", func(c goja.FunctionCall) goja.Value {
		bytes, ok := b.bytesOf(c.This)
		if !ok {
			panic(b.vm.NewTypeError("text is a method of raw data"))
		}
		return b.decode(&textDecoder{encoding: charset.Standard("utf-8"), fatal: true}, bytes, false)
	})
	b.method(decoder, "decode", func(c goja.FunctionCall) goja.Value {
		d := held[*textDecoder](b, c.This, "TextDecoder")
		bytes, ok := b.bytesOf(c.Argument(0))
		if !ok {
			panic(b.vm.NewTypeError("TextDecoder.decode wants raw data, an ArrayBuffer, a typed array or a DataView"))
		}
		return b.decode(d, bytes, b.option(c.Argument(1), "stream"))
	})
	b.getter(decoder, "encoding", func(c goja.FunctionCall) goja.Value {
		return b.vm.ToValue(held[*textDecoder](b, c.This, "TextDecoder").encoding.Name())
	})
	b.getter(decoder, "fatal", func(c goja.FunctionCall) goja.Value {
		return b.vm.ToValue(held[*textDecoder](b, c.This, "TextDecoder").fatal)
	})
	b.getter(decoder, "ignoreBOM", func(c goja.FunctionCall) goja.Value {
		return b.vm.ToValue(held[*textDecoder](b, c.This, "TextDecoder").ignoreBOM)
	})
	b.getter(encoder, "encoding", func(c goja.FunctionCall) goja.Value {
		held[*textEncoder](b, c.This, "TextEncoder")
		return b.vm.ToValue("utf-8")
	})
	b.method(encoder, "encode", func(c goja.FunctionCall) goja.Value {
		held[*textEncoder](b, c.This, "TextEncoder")
		if goja.IsUndefined(c.Argument(0)) {
			c.Arguments = []goja.Value{b.vm.ToValue("")}
		}
		text := b.textOf(c.Argument(0))
		b.guard.make(uint64(text.Length()))
		encoded, err := b.vm.New(array, b.vm.ToValue(b.vm.NewArrayBuffer([]byte(text.String()))))
		if err != nil {
			panic(err)
		}
		return encoded
	})
	b.method(encoder, "encodeInto", func(c goja.FunctionCall) goja.Value {
		held[*textEncoder](b, c.This, "TextEncoder")
		text := b.textOf(c.Argument(0)).String()
		to, ok := c.Argument(1).(*goja.Object)
		if ok {
			_, ok = exported(to).([]byte)
		}
		if !ok {
			panic(b.vm.NewTypeError("TextEncoder.encodeInto wants text and a Uint8Array"))
		}
		into, _ := b.bytesOf(to)
		read, written := encodeInto(text, into)
		result := b.vm.NewObject()
		_, _ = result.Set("read", read), result.Set("written", written) // result is a plain object, so this cannot fail
		return result
	})
	return errors.Join(b.err, r.vm.Set("TextDecoder", decoders), r.vm.Set("TextEncoder", encoders))
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
func (b *bounds) class(name string, construct func(goja.ConstructorCall) any) (constructor, prototype *goja.Object) {
	constructor = b.vm.ToValue(func(c goja.ConstructorCall) *goja.Object {
		b.enter()
		defer b.leave()
		o := b.vm.ToValue(construct(c)).(*goja.Object)
		b.keep(o.SetPrototype(c.This.Prototype()))
		return o
	}).(*goja.Object)
	b.keep(constructor.DefineDataProperty("name", b.vm.ToValue(name), goja.FLAG_FALSE, goja.FLAG_TRUE, goja.FLAG_FALSE))
	prototype = constructor.Get("prototype").(*goja.Object)
	b.keep(prototype.DefineDataPropertySymbol(goja.SymToStringTag,
		b.vm.ToValue(name), goja.FLAG_FALSE, goja.FLAG_TRUE, goja.FLAG_FALSE))
	return constructor, prototype
}

// method defines a method of a prototype.
func (b *bounds) method(prototype *goja.Object, name string, f func(goja.FunctionCall) goja.Value) {
	o := b.vm.ToValue(b.count(f)).(*goja.Object)
	b.keep(o.DefineDataProperty("name", b.vm.ToValue(name), goja.FLAG_FALSE, goja.FLAG_TRUE, goja.FLAG_FALSE))
	b.define(prototype, name, o)
}

// getter defines a read-only property of a prototype.
func (b *bounds) getter(prototype *goja.Object, name string, f func(goja.FunctionCall) goja.Value) {
	b.keep(prototype.DefineAccessorProperty(name, b.vm.ToValue(b.count(f)), nil, goja.FLAG_TRUE, goja.FLAG_TRUE))
}

// held returns the Go value in an object of a class.
func held[T any](b *bounds, v goja.Value, class string) T {
	if o, ok := v.(*goja.Object); ok {
		if h, ok := exported(o).(T); ok {
			return h
		}
	}
	panic(b.vm.NewTypeError("this is no %s", class))
}

func (b *bounds) newDecoder(label, options goja.Value) *textDecoder {
	name := "utf-8"
	if !goja.IsUndefined(label) {
		name = b.textOf(label).String()
	}
	d := &textDecoder{encoding: charset.Standard(name),
		fatal: b.option(options, "fatal"), ignoreBOM: b.option(options, "ignoreBOM")}
	if d.encoding == nil {
		b.throw(fmt.Sprintf("the encoding %.50q is not known: there are utf-8, utf-16le, utf-16be and those of one byte a character, such as windows-1252",
			name))
	}
	return d
}

// option reports whether options is an object in which the named option is true.
func (b *bounds) option(options goja.Value, name string) bool {
	o, ok := options.(*goja.Object)
	if !ok {
		return false
	}
	v := o.Get(name)
	return v != nil && v.ToBoolean()
}

// bytesOf returns the bytes of an object that has bytes, or no bytes for undefined. They are shared with the script.
func (b *bounds) bytesOf(v goja.Value) ([]byte, bool) {
	o, ok := v.(*goja.Object)
	if !ok {
		return nil, v == nil || goja.IsUndefined(v)
	}
	switch w := exported(o).(type) {
	case *octets:
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
	from, n, all := offset.ToInteger(), length.ToInteger(), buffer.Bytes()
	if from < 0 || n < 0 || from > int64(len(all)) || n > int64(len(all))-from {
		return nil, false
	}
	return all[from : from+n], true
}

// decode returns the text of bytes. If the bytes are invalid and d is fatal, it throws.
func (b *bounds) decode(d *textDecoder, bytes []byte, stream bool) goja.Value {
	if len(bytes) > maxMade/3 {
		b.throw("the data is too long for a text")
	}
	b.guard.make(uint64(len(bytes)))
	if len(d.rest) > 0 {
		bytes = append(d.rest, bytes...)
	}
	out, rest, err := d.encoding.Decode(bytes, stream)
	begun := d.begun
	d.begun, d.rest = stream && (d.begun || len(out) > 0), append([]byte(nil), rest...)
	if err != nil && d.fatal {
		d.begun, d.rest = false, nil
		panic(b.vm.NewTypeError("%s", err.Error()))
	}
	const mark = "\ufeff"
	if text := string(out); begun || d.ignoreBOM || d.encoding.Mark() == "" || len(text) < len(mark) || text[:len(mark)] != mark {
		return b.vm.ToValue(text)
	}
	return b.vm.ToValue(string(out[len(mark):]))
}
