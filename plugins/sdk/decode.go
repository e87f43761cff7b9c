package sdk

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Decode fills the struct that into points to from the settings, according to the tags that ParametersOf reads. It
// trims keys and values, applies defaults, and checks names, types and rules. The error joins all errors, one
// SettingError each; then the struct is unchanged. Decode panics where ParametersOf does.
func Decode(settings map[string]string, into any) error {
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.IsNil() || target.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("sdk: cannot decode settings into a %T: use a pointer to a struct", into))
	}
	params := parametersOf(target.Type().Elem())
	settings = params.ApplyDefaults(settings)
	return fill(target.Elem(), settings, params.check(settings))
}

// fill fills the struct target from settings that have their defaults, unless it finds an error in them.
func fill(target reflect.Value, settings map[string]string, wrong []SettingError) error {
	d := decoder{settings: settings}
	d.fail(wrong...)
	filled := reflect.New(target.Type()).Elem()
	filled.Set(target)
	d.fillStruct(filled, "")
	if len(d.errs) > 0 {
		return errors.Join(d.errs...)
	}
	target.Set(filled)
	return nil
}

type decoder struct {
	settings map[string]string
	errs     []error
	failed   map[string]bool // settings with an error
}

func (d *decoder) fail(errs ...SettingError) {
	if d.failed == nil {
		d.failed = map[string]bool{}
	}
	for _, err := range errs {
		d.errs = append(d.errs, err)
		d.failed[err.Setting] = true
	}
}

// fillStruct fills the struct v and reports whether it used any setting.
func (d *decoder) fillStruct(v reflect.Value, prefix string) bool {
	any := false
	for i := range v.NumField() {
		if name, ok := fieldName(v.Type().Field(i)); ok {
			any = d.fill(v.Field(i), join(prefix, name)) || any
		}
	}
	return any
}

func (d *decoder) fill(v reflect.Value, name string) bool {
	switch v.Kind() {
	case reflect.Struct:
		return d.fillStruct(v, name)
	case reflect.Pointer:
		e := reflect.New(v.Type().Elem())
		if !d.fill(e.Elem(), name) {
			return false
		}
		v.Set(e)
		return true
	case reflect.Map:
		return d.fillMap(v, mapPattern(name))
	}
	text := d.settings[name]
	if text == "" || d.failed[name] {
		return false
	}
	if err := setText(v, text); err != nil {
		d.fail(SettingError{name, err.Error()})
	}
	return true
}

func (d *decoder) fillMap(v reflect.Value, pattern string) bool {
	m := reflect.MakeMap(v.Type())
	before, after, _ := strings.Cut(pattern[strings.LastIndex(pattern, ".")+1:], "*")
	for _, name := range d.instances(pattern, v.Type().Elem()) {
		e := reflect.New(v.Type().Elem()).Elem()
		if !d.fill(e, name) {
			continue
		}
		key := name[strings.LastIndex(name, ".")+1:]
		key = strings.TrimSuffix(strings.TrimPrefix(key, before), after)
		m.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), e)
	}
	if m.Len() == 0 {
		return false
	}
	v.Set(m)
	return true
}

// instances returns the names that pattern, the name of a map of elem, stands for in the settings.
func (d *decoder) instances(pattern string, elem reflect.Type) []string {
	for elem.Kind() == reflect.Pointer {
		elem = elem.Elem()
	}
	nested := elem.Kind() == reflect.Struct || elem.Kind() == reflect.Map
	names := map[string]bool{}
	for setting := range d.settings {
		if nested {
			setting = firstSegments(setting, strings.Count(pattern, ".")+1)
		}
		if name, ok := instance(pattern, setting); ok {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// firstSegments returns the first n segments of name if it has more, else "".
func firstSegments(name string, n int) string {
	if parts := strings.Split(name, "."); len(parts) > n {
		return strings.Join(parts[:n], ".")
	}
	return ""
}

// setText sets v to the parsed text. The error completes "the setting …".
func setText(v reflect.Value, text string) error {
	var err error
	switch k := v.Kind(); {
	case v.Type() == durationType:
		var d time.Duration
		if d, err = time.ParseDuration(text); err == nil {
			v.SetInt(int64(d))
		}
	case k == reflect.String:
		v.SetString(text)
	case k == reflect.Bool:
		var b bool
		if b, err = strconv.ParseBool(text); err == nil {
			v.SetBool(b)
		}
	case v.CanInt():
		var n int64
		if n, err = strconv.ParseInt(text, 10, v.Type().Bits()); err == nil {
			v.SetInt(n)
		}
	case v.CanUint():
		var n uint64
		if n, err = strconv.ParseUint(text, 10, v.Type().Bits()); err == nil {
			v.SetUint(n)
		}
	case v.CanFloat():
		var f float64
		if f, err = parseNumber(text); err == nil {
			v.SetFloat(f)
		}
	case k == reflect.Slice:
		return setList(v, text)
	}
	if err != nil {
		return fmt.Errorf("must fit %s, not %q", v.Type(), text)
	}
	return nil
}

func setList(v reflect.Value, text string) error {
	items := splitList(text)
	list := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		if err := setText(list.Index(i), item); err != nil {
			return fmt.Errorf("item %d %w", i+1, err)
		}
	}
	v.Set(list)
	return nil
}
