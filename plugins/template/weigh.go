package template

import "reflect"

func indirect(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return reflect.Value{}
		}
		v = v.Elem()
	}
	return v
}

// weigh refuses values that are too large to be printed, copied or compared.
func weigh(values []reflect.Value) error {
	w := weight{nodes: maxNodes, bytes: maxOutput}
	for _, v := range values {
		if err := w.add(v, 0); err != nil {
			return err
		}
	}
	return nil
}

type weight struct{ nodes, bytes int }

func (w *weight) add(v reflect.Value, depth int) error {
	if w.nodes--; w.nodes < 0 || depth > maxDepth {
		return errNodes
	}
	switch v = indirect(v); v.Kind() {
	case reflect.String:
		if w.bytes -= v.Len(); w.bytes < 0 {
			return errOutput
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if err := w.add(it.Value(), depth+1); err != nil {
				return err
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if w.bytes -= v.Len(); w.bytes < 0 {
				return errOutput
			}
			return nil
		}
		for i := range v.Len() {
			if err := w.add(v.Index(i), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// rejectCycle refuses to insert the map in the first argument into itself.
func rejectCycle(args []reflect.Value) error {
	target := indirect(args[0])
	if target.Kind() != reflect.Map {
		return nil
	}
	for _, v := range args[1:] {
		if contains(v, target.UnsafePointer()) {
			return errCycle
		}
	}
	return nil
}

func contains(v reflect.Value, target any) bool {
	switch v = indirect(v); v.Kind() {
	case reflect.Map:
		if v.UnsafePointer() == target {
			return true
		}
		for it := v.MapRange(); it.Next(); {
			if contains(it.Value(), target) {
				return true
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if contains(v.Index(i), target) {
				return true
			}
		}
	}
	return false
}
