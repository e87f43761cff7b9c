package template

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"

	"github.com/conduit-agent/conduit/plugins/record"
)

// integers are the functions that compute with 64-bit integers.
var integers = map[string]bool{
	"add": true, "add1": true, "sub": true, "mul": true, "div": true,
	"mod": true, "max": true, "min": true, "biggest": true,
	"int": true, "int64": true, "atoi": true, "until": true, "untilStep": true, "seq": true,
}

var anyType = reflect.TypeFor[any]()

// truncateNumbers replaces json.Number arguments of an integer function by their integer part, as the function does
// with floats. It fails if the integer part exceeds 64 bits: the function would use 0 instead.
func truncateNumbers(args []reflect.Value) error {
	for i, arg := range args {
		switch {
		case arg.Type() == anyType:
			if n, ok := arg.Interface().(json.Number); ok {
				whole, err := truncate(n)
				if err != nil {
					return err
				}
				args[i] = reflect.ValueOf(whole)
			}
		case arg.Kind() == reflect.Slice && arg.Type().Elem() == anyType:
			all := make([]any, arg.Len())
			for j := range all {
				all[j] = arg.Index(j).Interface()
				if n, ok := all[j].(json.Number); ok {
					whole, err := truncate(n)
					if err != nil {
						return err
					}
					all[j] = whole
				}
			}
			args[i] = reflect.ValueOf(all)
		}
	}
	return nil
}

func truncate(n json.Number) (int64, error) {
	if whole, err := n.Int64(); err == nil {
		return whole, nil
	}
	f, err := n.Float64()
	if err != nil || math.Abs(f) >= 1<<63 {
		return 0,
			fmt.Errorf("cannot compute with %.50s, which is no integer of 64 bits: use addf, subf, mulf or divf, "+
				"which round", n)
	}
	return int64(f), nil
}

// fromJSON returns the value of JSON text. Numbers that a float64 would change stay exact.
func fromJSON(text string) (any, error) {
	if !json.Valid([]byte(text)) {
		var v any
		return nil, json.Unmarshal([]byte(text), &v)
	}
	var d record.Data
	if err := d.UnmarshalJSON([]byte(`{"v":` + text + `}`)); err != nil {
		return nil, err
	}
	m, _ := d.Structured()
	return m["v"], nil
}
