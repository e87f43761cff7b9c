package template

import (
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// textName is the function that converts every printed value to text.
const textName = "conduit_text"

// printByText makes every action of t print the result of the function textName.
func printByText(t *template.Template) {
	trees, err := parse.Parse("", "{{0 | "+textName+"}}", "", "", map[string]any{textName: (*machine).text})
	if err != nil {
		panic(err)
	}
	name := trees[""].Root.Nodes[0].(*parse.ActionNode).Pipe.Cmds[1].Args[0]
	for _, each := range t.Templates() {
		if each.Tree == nil || each.Root == nil {
			continue
		}
		eachNode(each.Root, func(n parse.Node) {
			if a, ok := n.(*parse.ActionNode); ok && len(a.Pipe.Decl) == 0 {
				call := a.Pipe.Cmds[0].Copy().(*parse.CommandNode) // with its place, for errors
				call.Args = []parse.Node{name.Copy()}
				a.Pipe.Cmds = append(a.Pipe.Cmds, call)
			}
		})
	}
}

// text implements the function textName.
func (m *machine) text(v any) (string, error) {
	s, err := m.textOf(v)
	if s == "" && err == nil && m.path != nil {
		s = m.path.empty
	}
	return s, err
}

func (m *machine) textOf(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case nil:
		if m.exact {
			return "", errNil
		}
	}
	if err := weigh([]reflect.Value{reflect.ValueOf(v)}); err != nil {
		return "", err
	}
	return textFor(v)
}

// textFor returns the text of a value in templates: the result of record.Text for values of records, and the text form
// of the type for other values, such as operations.
func textFor(v any) (string, error) {
	switch v := v.(type) {
	case nil, string, bool, int, int64, float64, []byte, json.Number, time.Time, map[string]any, []any:
		return record.Text(v)
	case text:
		return string(v), nil
	case error:
		return v.Error(), nil
	case fmt.Stringer:
		return v.String(), nil
	case json.Marshaler:
		b, err := v.MarshalJSON()
		return string(b), err
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Map, reflect.Slice, reflect.Pointer:
		if r.IsNil() {
			return "", nil
		}
		if r.Kind() == reflect.Pointer {
			return textFor(r.Elem().Interface())
		}
	case reflect.Func, reflect.Chan, reflect.Complex64, reflect.Complex128, reflect.Struct:
		return fmt.Sprint(v), nil
	}
	return record.Text(v)
}

// textOfEach returns the texts of the values that are not nil.
func textOfEach(values []any) ([]string, error) {
	all := make([]string, 0, len(values))
	for _, v := range values {
		if v == nil {
			continue
		}
		s, err := textFor(v)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// textsOf returns the texts of a list. It treats any other value as a list with one element.
func textsOf(list any) ([]string, error) {
	v := indirect(reflect.ValueOf(list))
	if kind := v.Kind(); kind != reflect.Slice && kind != reflect.Array || v.Type().Elem().Kind() == reflect.Uint8 {
		return textOfEach([]any{list})
	}
	all := make([]any, v.Len())
	for i := range all {
		all[i] = v.Index(i).Interface()
	}
	return textOfEach(all)
}

// textFunctions are the functions that make text from values of any type. They replace functions of text/template and
// sprig, which print values in the format of Go: 1e+06, map[a:1], <nil>.
func textFunctions() template.FuncMap {
	each := func(escape func(string) string) func(...any) (string, error) {
		return func(args ...any) (string, error) {
			s, err := sprint(args...)
			return escape(s), err
		}
	}
	quoted := func(quote func(string) string) func(...any) (string, error) {
		return func(args ...any) (string, error) {
			all, err := textOfEach(args)
			for i, s := range all {
				all[i] = quote(s)
			}
			return strings.Join(all, " "), err
		}
	}
	return template.FuncMap{
		"print":  sprint,
		"printf": sprintf,
		"println": func(args ...any) (string, error) {
			all, err := printedAll(args)
			return fmt.Sprintln(all...), err
		},
		"html":      each(html.EscapeString),
		"js":        each(template.JSEscapeString),
		"urlquery":  each(url.QueryEscape),
		"toString":  textFor,
		"toStrings": textsOf,
		"cat":       quoted(func(s string) string { return s }),
		"quote":     quoted(strconv.Quote),
		"squote":    quoted(func(s string) string { return "'" + s + "'" }),
		"join": func(separator string, list any) (string, error) {
			all, err := textsOf(list)
			return strings.Join(all, separator), err
		},
		"sortAlpha": func(list any) ([]string, error) {
			all, err := textsOf(list)
			slices.Sort(all)
			return all, err
		},
		"eq": equalAny,
		"ne": func(a, b any) (bool, error) { same, err := equalAny(a, b); return !same, err },
		"lt": ordered("lt"), "le": ordered("le"), "gt": ordered("gt"), "ge": ordered("ge"),
	}
}

// printedAll returns values that fmt prints like templates do. Text stays text, because fmt puts no space between
// texts.
func printedAll(args []any) ([]any, error) {
	all := make([]any, len(args))
	for i, v := range args {
		if s, ok := v.(string); ok {
			all[i] = s
			continue
		}
		s, err := textFor(v)
		if err != nil {
			return nil, err
		}
		all[i] = printed{v, s, new(error)}
	}
	return all, nil
}

func sprint(args ...any) (string, error) {
	all, err := printedAll(args)
	return fmt.Sprint(all...), err
}

// sprintf is fmt.Sprintf for values of records: text is printed like in templates, and numbers of any type accept all
// verbs of numbers. A verb that does not suit the value is an error.
func sprintf(format string, args ...any) (string, error) {
	var failed error
	all, longest := make([]any, len(args)), 0
	for i, v := range args {
		s, err := textFor(v)
		if err != nil {
			return "", err
		}
		longest = max(longest, len(s))
		if n := reflect.ValueOf(v); n.CanInt() && isPlain(n.Type()) {
			all[i] = printedInt(n.Int())
		} else {
			all[i] = printed{v, s, &failed}
		}
	}
	if formatted(format, longest) > maxOutput {
		return "", errOutput
	}
	out := fmt.Sprintf(format, all...)
	return out, failed
}

// printed is a value that package fmt prints like templates do.
type printed struct {
	v      any
	text   string
	failed *error // set if the verb does not suit the value
}

// Format implements fmt.Formatter.
func (p printed) Format(s fmt.State, verb rune) {
	if err := format(s, verb, p.v, p.text); err != nil {
		*p.failed = err
	}
}

// printedInt is printed for integers. Its kind lets fmt use it also as a width.
type printedInt int64

// Format implements fmt.Formatter.
func (p printedInt) Format(s fmt.State, verb rune) {
	_ = format(s, verb, int64(p), strconv.FormatInt(int64(p), 10))
}

func format(s fmt.State, verb rune, v any, text string) error {
	as := func(verb rune, v any) { _, _ = fmt.Fprintf(s, fmt.FormatString(s, verb), v) }
	n, isNumber := numberOf(v)
	_, precise := s.Precision()
	switch {
	case v == nil, verb == 's', verb == 'q', verb == 'v' && !s.Flag('#') && !(isNumber && precise):
		if verb != 'q' {
			verb = 's'
		}
		as(verb, text)
	case !isNumber && (verb == 'x' || verb == 'X'):
		as(verb, text)
	case strings.ContainsRune("bcdoOUxX", verb) && isNumber && n.whole != nil:
		as(verb, n.whole)
	case strings.ContainsRune("bxXeEfFgGv", verb) && isNumber:
		as(verb, n.float())
	case verb == 't' && reflect.ValueOf(v).Kind() == reflect.Bool, verb == 'v' || verb == 'T':
		as(verb, v)
	default:
		as('s', text)
		return fmt.Errorf("cannot print a %T with %%%c", v, verb)
	}
	return nil
}
