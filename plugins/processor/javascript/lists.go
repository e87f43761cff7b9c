package javascript

import (
	"fmt"
	"slices"

	"github.com/dop251/goja"
)

// list presents a list of structured data to the script. Like object, it keeps edits separate from the list.
type list struct {
	call   scope
	items  []any
	values []goja.Value // nil: no edits; a nil element is unchanged
	taken  bool
}

func (l *list) Len() int {
	l.call.check()
	if l.values != nil {
		return len(l.values)
	}
	return len(l.items)
}

func (l *list) Get(i int) goja.Value {
	if i < 0 || i >= l.Len() {
		return nil
	}
	if l.values != nil && l.values[i] != nil {
		return l.values[i]
	}
	w := l.call.wrap(l.items[i])
	if editable(l.items[i]) {
		l.edit()
		l.values[i] = w // return the same object the next time
	}
	return w
}

func (l *list) edit() {
	if l.values == nil {
		l.values = make([]goja.Value, len(l.items))
	}
}

func (l *list) Set(i int, v goja.Value) bool {
	if i < 0 {
		return false
	}
	if _, nested := v.(*goja.Object); !nested {
		if err := checkPrimitive(v); err != nil {
			panic(l.call.vm.NewTypeError("cannot set [%d]: %v", i, err))
		}
	}
	if i >= l.Len() {
		l.SetLen(i + 1)
	}
	l.edit()
	l.values[i] = v
	return true
}

func (l *list) SetLen(n int) bool {
	l.call.check()
	if n > maxLength {
		panic(l.call.vm.NewTypeError("a list of %d is too long: at most %d", n, maxLength))
	}
	l.edit()
	for len(l.values) < n {
		l.values = append(l.values, goja.Undefined())
	}
	clear(l.values[n:])
	l.values = l.values[:n]
	return true
}

// take returns the list with its edits. The second call returns a copy.
func (l *list) take(depth int) ([]any, error) {
	if l.taken {
		return l.copied(depth)
	}
	l.taken = true
	if l.values == nil {
		return l.items, nil
	}
	return l.build(depth, true)
}

// copied returns a deep copy of the list with its edits.
func (l *list) copied(depth int) ([]any, error) {
	l.edit()
	return l.build(depth, false)
}

func (l *list) build(depth int, take bool) ([]any, error) {
	if err := l.call.charge(elementBytes * len(l.values)); err != nil {
		return nil, err
	}
	out := make([]any, len(l.values))
	for i, v := range l.values {
		var err error
		if v == nil {
			if out[i] = l.items[i]; !take {
				if out[i], err = l.call.clone(out[i]); err != nil {
					return nil, err
				}
			}
			continue
		}
		if out[i], err = l.call.resolve(v, depth+1, take); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return out, nil
}

// rawBytes presents raw data to the script as a list of numbers from 0 to 255.
type rawBytes struct {
	call  scope
	b     []byte
	owned bool // b is a copy that may be changed
}

func (o *rawBytes) Len() int {
	o.call.check()
	return len(o.b)
}

func (o *rawBytes) Get(i int) goja.Value {
	if i < 0 || i >= o.Len() {
		return nil
	}
	return o.call.vm.ToValue(int(o.b[i]))
}

func (o *rawBytes) own() {
	if !o.owned {
		o.b, o.owned = slices.Clone(o.b), true
	}
}

func (o *rawBytes) Set(i int, v goja.Value) bool {
	if i < 0 {
		return false
	}
	if i >= o.Len() {
		o.SetLen(i + 1)
	}
	o.own()
	o.b[i] = byte(v.ToInteger())
	return true
}

func (o *rawBytes) SetLen(n int) bool {
	o.call.check()
	if n > maxLength {
		panic(o.call.vm.NewTypeError("raw data of %d bytes is too long: at most %d", n, maxLength))
	}
	o.own()
	if n <= len(o.b) {
		o.b = o.b[:n]
	} else {
		o.b = append(o.b, make([]byte, n-len(o.b))...)
	}
	return true
}
