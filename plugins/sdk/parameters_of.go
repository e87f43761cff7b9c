package sdk

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/spec/texts"
)

// ParametersOf returns the parameters that the tags of the exported fields of v define. v is a struct or a pointer to
// one. The tags are:
//
//	json      name of the setting; dots belong to the name. A field without it is no setting.
//	default   value of a setting that is missing or empty
//	desc      description
//	literal   true for a Literal parameter
//	template  true for a Template parameter
//	validate  comma list of required, gt=N, lt=N, inclusion=a|b, exclusion=a|b, regex=RE2;
//	          regex comes last, because it may hold commas
//
// A field is a string, bool, integer, float or time.Duration, or made of these:
//
//	slice    a comma list
//	pointer  nil when there is no value
//	map      from string to one type above, "name.*", or to a struct
//	struct   its settings follow its own name and a dot; an embedded struct
//	         without a json tag adds no name
//
// It panics on an invalid tag or type, which is a bug in the program.
func ParametersOf(v any) Parameters { return maps.Clone(parametersOf(structOf(v))) }

// Described is like ParametersOf, and a field without the tag desc has its comment as the description. descriptions is
// the constant that package plugins/sdk/describe generates from the comments in the package of the struct, followed by
// those of other packages whose structs v contains.
func Described(v any, descriptions string) Parameters {
	p := Parameters{}
	p.addStruct("", structOf(v), &describer{descriptions: descriptions})
	return p
}

func structOf(v any) reflect.Type {
	t := reflect.TypeOf(v)
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		panic(fmt.Sprintf("sdk: cannot describe the parameters of a %T: use a struct", v))
	}
	return t
}

// known caches the results of parametersOf, because every start of a connector needs them. Values are not modified.
var known sync.Map // Parameters by reflect.Type

func parametersOf(t reflect.Type) Parameters {
	if p, ok := known.Load(t); ok {
		return p.(Parameters)
	}
	p := Parameters{}
	p.addStruct("", t, &describer{})
	known.Store(t, p)
	return p
}

func (p Parameters) addStruct(prefix string, t reflect.Type, d *describer) {
	if t.Name() != "" {
		d = &describer{descriptions: d.descriptions, owner: t.String()}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, ok := fieldName(f)
		if !ok {
			continue
		}
		p.addField(join(prefix, name), f, f.Type, &describer{d.descriptions, d.owner, join(d.field, name)})
	}
}

func (p Parameters) addField(name string, f reflect.StructField, t reflect.Type, d *describer) {
	switch {
	case t.Kind() == reflect.Pointer:
		p.addField(name, f, t.Elem(), d)
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
		p.addField(mapPattern(name), f, t.Elem(), d)
	case t.Kind() == reflect.Struct:
		p.addStruct(name, t, d)
	default:
		description := f.Tag.Get("desc")
		if description == "" {
			description = texts.Description(d.descriptions, d.owner, d.field)
		}
		p[name] = Parameter{
			Default:     f.Tag.Get("default"),
			Description: description,
			Type:        parameterType(name, t),
			Validations: validationsOf(name, f.Tag.Get("validate")),
			Literal:     f.Tag.Get("literal") == "true",
			Template:    f.Tag.Get("template") == "true",
		}
	}
}

// describer finds the description of a field.
type describer struct {
	descriptions string
	owner        string // the struct with a name that the field is in
	field        string // in the owner
}

// fieldName returns the name of the setting in f. It returns "" for an embedded struct, whose settings belong to the
// enclosing struct. ok is false if f is not a setting.
func fieldName(f reflect.StructField) (name string, ok bool) {
	tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case tag == "-":
		return "", false
	case tag == "" && f.Anonymous:
		return "", f.Type.Kind() == reflect.Struct
	}
	return tag, tag != "" && f.IsExported()
}

func join(prefix, name string) string {
	if prefix == "" || name == "" {
		return prefix + name
	}
	return prefix + "." + name
}

func mapPattern(name string) string {
	if strings.HasSuffix(name, "*") {
		return name
	}
	return name + ".*"
}

var durationType = reflect.TypeFor[time.Duration]()

func parameterType(name string, t reflect.Type) ParameterType {
	switch k := t.Kind(); {
	case t == durationType:
		return TypeDuration
	case k == reflect.String:
		return TypeString
	case k == reflect.Bool:
		return TypeBool
	case k >= reflect.Int && k <= reflect.Int64, k >= reflect.Uint && k <= reflect.Uint64:
		return TypeInt
	case k == reflect.Float32, k == reflect.Float64:
		return TypeFloat
	case k == reflect.Slice:
		parameterType(name, t.Elem())
		return TypeString
	}
	panic(fmt.Sprintf("sdk: cannot use %v as the type of parameter %q", t, name))
}

var validationNames = map[string]ValidationType{
	"required":  ValidationRequired,
	"gt":        ValidationGreaterThan,
	"lt":        ValidationLessThan,
	"inclusion": ValidationInclusion,
	"exclusion": ValidationExclusion,
	"regex":     ValidationRegex,
}

func validationsOf(name, tag string) []Validation {
	var vs []Validation
	for tag != "" {
		var rule string
		if strings.HasPrefix(tag, "regex=") {
			rule, tag = tag, ""
		} else {
			rule, tag, _ = strings.Cut(tag, ",")
		}
		rule, value, _ := strings.Cut(rule, "=")
		v := Validation{Type: validationNames[strings.TrimSpace(rule)], Value: value}
		if v.Type == ValidationInclusion || v.Type == ValidationExclusion {
			v.Value = strings.ReplaceAll(value, "|", ",")
		}
		if err := v.valid(); err != nil {
			panic(fmt.Sprintf("sdk: cannot use %q as a validation of parameter %q: %v", rule, name, err))
		}
		vs = append(vs, v)
	}
	return vs
}
