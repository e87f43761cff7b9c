package javascript

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/dop251/goja"

	"github.com/conduit-agent/conduit/plugins/record"
)

// exactNumber presents a number to the script that a double cannot represent and that is not a BigInt. It is an object
// that keeps the text, and is rounded when the script computes with it.
type exactNumber struct{ text string }

// maxBigInt bounds the digits of an integer that scripts see as a BigInt, because the conversion takes more than linear
// time.
const maxBigInt = 1000

// number converts a number of JSON for the script: to a Number if that is exact, else to a BigInt if it is an integer
// of at most maxBigInt digits, else to an exactNumber.
func (c *call) number(text string) goja.Value { return numberValue(c.vm, c.exact, text) }

func numberValue(vm *goja.Runtime, prototype *goja.Object, text string) goja.Value {
	if f, exact := record.ExactFloat(text); exact {
		return vm.ToValue(f)
	}
	if len(text) <= maxBigInt && !strings.ContainsAny(text, ".eE") {
		if n, ok := new(big.Int).SetString(text, 10); ok {
			return vm.ToValue(n)
		}
	}
	o := vm.ToValue(&exactNumber{text}).(*goja.Object)
	_ = o.SetPrototype(prototype) // o is new, so this cannot fail
	return o
}

// fromBigInt converts a BigInt to structured data.
func fromBigInt(n *big.Int) (any, error) {
	if n.IsInt64() {
		return n.Int64(), nil
	}
	if n.BitLen() > maxBits {
		return nil, fmt.Errorf("a BigInt of %d bits cannot be a value of a record", n.BitLen())
	}
	return json.Number(n.String()), nil
}

// defineNumbers makes the prototype of exactNumber.
func (r *runtime) defineNumbers(n *natives) {
	numbers := r.vm.Get("Number").(*goja.Object).Get("prototype").(*goja.Object)
	r.call.exact = r.vm.CreateObject(numbers)
	value := func(v goja.Value) (double goja.Value, text string) {
		text = valueIn[*exactNumber](n, v, "number of a record").text
		f, _ := strconv.ParseFloat(text, 64)
		return n.vm.ToValue(f), text
	}
	n.method(r.call.exact, "valueOf", func(c goja.FunctionCall) goja.Value {
		double, _ := value(c.This)
		return double
	})
	for _, name := range []string{"toString", "toLocaleString"} {
		n.method(r.call.exact, name, func(c goja.FunctionCall) goja.Value {
			_, text := value(c.This)
			return n.vm.ToValue(text)
		})
	}
	for _, name := range []string{"toFixed", "toPrecision", "toExponential"} {
		original := nativeOf(numbers, name)
		n.method(r.call.exact, name, func(c goja.FunctionCall) goja.Value {
			c.This, _ = value(c.This)
			return original(c)
		})
	}
	n.exact, n.exactPrefix = r.call.exact, "number"+rand.Text()
}

// exactText returns the digits of an exactNumber or a BigInt.
func (n *natives) exactText(v goja.Value) (text string, ok bool) {
	if o, isObject := v.(*goja.Object); isObject {
		exact, ok := exported(o).(*exactNumber)
		if !ok {
			return "", false
		}
		return exact.text, true
	}
	if v == nil || v.ExportType() != bigInt {
		return "", false
	}
	i := v.Export().(*big.Int)
	if i.BitLen() > maxBits {
		n.throw("a BigInt is too large for a text")
	}
	return i.String(), true
}

// markNumbers replaces the numbers in a JSON text that a double cannot represent by texts, and reports whether there
// are any. If the input is not JSON, the result is not JSON either, but may differ.
func (n *natives) markNumbers(text string) (marked string, changed bool) {
	var out strings.Builder
	done, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case quoted || c != '-' && (c < '0' || c > '9'):
		default:
			start := i
			for i < len(text) && (text[i] >= '0' && text[i] <= '9' || strings.IndexByte("+-.eE", text[i]) >= 0) {
				i++
			}
			number := text[start:i]
			i--
			if len(number) < len("1e400") {
				continue
			}
			if _, exact := record.ExactFloat(number); !exact && record.IsNumber(number) {
				out.WriteString(text[done:start])
				out.WriteString(`"` + n.exactPrefix + number + `"`)
				done, changed = start+len(number), true
			}
		}
	}
	if !changed {
		return text, false
	}
	out.WriteString(text[done:])
	return out.String(), true
}

// unmarkNumber returns the number that v stands for, or v if it is not a text of markNumbers.
func (n *natives) unmarkNumber(v goja.Value) goja.Value {
	if s, ok := v.(goja.String); ok && s.Length() > len(n.exactPrefix) {
		if text, ok := strings.CutPrefix(s.String(), n.exactPrefix); ok {
			return numberValue(n.vm, n.exact, text)
		}
	}
	return v
}
