package template

import (
	"maps"
	"math"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"text/template"
	"unicode"
)

// allFunctions returns the functions of all templates. The map must not be modified.
var allFunctions = sync.OnceValue(func() template.FuncMap {
	funcs := library()
	maps.Copy(funcs, textFunctions())
	return funcs
})

// mutators change their first argument.
var mutators = map[string]bool{
	"set": true, "merge": true, "mergeOverwrite": true, "mustMerge": true, "mustMergeOverwrite": true,
}

// growth holds the functions whose result may be much larger than their arguments, with an upper bound for the bytes of
// the result.
var growth = map[string]func(args []reflect.Value) float64{
	"repeat":       func(a []reflect.Value) float64 { return number(a, 0) * length(a, 1) },
	"until":        func(a []reflect.Value) float64 { return 16 * math.Abs(number(a, 0)) },
	"untilStep":    func(a []reflect.Value) float64 { return 16 * steps(number(a, 0), number(a, 1), number(a, 2)) },
	"seq":          seqSize,
	"indent":       func(a []reflect.Value) float64 { return number(a, 0) * (lines(a, 1) + 1) },
	"nindent":      func(a []reflect.Value) float64 { return number(a, 0) * (lines(a, 1) + 1) },
	"randAlphaNum": count, "randAlpha": count, "randAscii": count, "randNumeric": count, "randBytes": count,
	"replace": func(a []reflect.Value) float64 {
		return float64(strings.Count(textOf(a, 2), textOf(a, 0))) * length(a, 1)
	},
	"wrapWith": func(a []reflect.Value) float64 {
		return length(a, 2) / math.Max(1, number(a, 0)) * (length(a, 1) + 1)
	},
	"join":                       func(a []reflect.Value) float64 { return items(a, 1) * length(a, 0) },
	"split":                      parts(keyedPart, 1, 0),
	"splitn":                     parts(keyedPart, 2, 0),
	"splitList":                  parts(listedPart, 1, 0),
	"regexFindAll":               found,
	"mustRegexFindAll":           found,
	"regexSplit":                 found,
	"mustRegexSplit":             found,
	"fromJson":                   decoded,
	"mustFromJson":               decoded,
	"toPrettyJson":               indented,
	"mustToPrettyJson":           indented,
	"regexReplaceAll":            replaced,
	"mustRegexReplaceAll":        replaced,
	"regexReplaceAllLiteral":     replaced,
	"mustRegexReplaceAllLiteral": replaced,
}

// Memory of a part of a text in a list and in a map, in bytes.
const (
	listedPart = 16
	keyedPart  = 128
)

// parts bounds the functions that split argument number text at argument number at.
func parts(each float64, text, at int) func(args []reflect.Value) float64 {
	return func(args []reflect.Value) float64 {
		return each * float64(strings.Count(textOf(args, text), textOf(args, at))+1)
	}
}

// found bounds the functions that return all matches of an expression, or the texts between them.
func found(args []reflect.Value) float64 {
	text := textOf(args, 1)
	if listedPart*(len(text)+1) <= maxOutput {
		return 0
	}
	re, err := regexp.Compile(textOf(args, 0))
	if err != nil {
		return 0
	}
	return (maxOutput/maxNodes + 1) * float64(len(re.FindAllStringIndex(text, maxNodes+1)))
}

// decoded bounds the values in a JSON text by its brackets, commas and colons outside of quotes.
func decoded(args []reflect.Value) (n float64) {
	text, quoted := textOf(args, 0), false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && strings.IndexByte("{[,:", c) >= 0:
			n++
		}
	}
	return (maxOutput/maxNodes/2 + 1) * n
}

// indented bounds JSON with a line for each value.
func indented(args []reflect.Value) float64 {
	w := weight{nodes: maxNodes, bytes: maxOutput}
	if len(args) == 0 || w.add(args[0], 0) != nil {
		return 0
	}
	return float64(maxNodes-w.nodes) * 2 * float64(deep(args[0]))
}

// deep returns the nesting depth of a value.
func deep(v reflect.Value) (most int) {
	switch v = indirect(v); v.Kind() {
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			most = max(most, deep(it.Value()))
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return 1
		}
		for i := range v.Len() {
			most = max(most, deep(v.Index(i)))
		}
	default:
		return 0
	}
	return most + 1
}

// maxWidth is the maximum width and precision in fmt.
const maxWidth = 1_000_000

// formatted bounds printf by the widths in its format and by its explicit argument indexes. longest is the length of
// the longest text in bytes.
func formatted(format string, longest int) (n float64) {
	for {
		i := strings.IndexByte(format, '%')
		if i < 0 {
			return n
		}
		format = format[i+1:]
		end := strings.IndexFunc(format, func(r rune) bool { return r == '%' || unicode.IsLetter(r) })
		if end < 0 {
			end = len(format)
		}
		directive, width := format[:end], 0
		if format = format[end:]; strings.HasPrefix(format, "%") {
			format = format[1:]
		}
		for _, c := range directive {
			switch {
			case c >= '0' && c <= '9':
				width = min(maxWidth, 10*width+int(c-'0'))
			case c == '*':
				n += maxWidth
			case c == '[':
				n += float64(longest)
			}
		}
		n += float64(width)
	}
}

func number(args []reflect.Value, i int) float64 {
	if i < len(args) && args[i].CanInt() {
		return float64(args[i].Int())
	}
	return 0
}

func textOf(args []reflect.Value, i int) string {
	if i < len(args) {
		if v := indirect(args[i]); v.Kind() == reflect.String {
			return v.String()
		}
	}
	return ""
}

func length(args []reflect.Value, i int) float64 { return float64(len(textOf(args, i))) }

func lines(args []reflect.Value, i int) float64 {
	return float64(strings.Count(textOf(args, i), "\n"))
}

func items(args []reflect.Value, i int) float64 {
	if v := indirect(args[i]); v.Kind() == reflect.Slice {
		return float64(v.Len())
	}
	return 1
}

// count bounds the functions that return a requested number of random characters, which are slow to make.
func count(args []reflect.Value) float64 { return 64 * number(args, 0) }

func steps(start, stop, step float64) float64 {
	if step == 0 {
		return 0
	}
	return math.Abs(stop-start)/math.Abs(step) + 1
}

func seqSize(args []reflect.Value) float64 {
	var n [3]float64
	for i := range min(3, args[0].Len()) { // the function is variadic
		n[i] = float64(args[0].Index(i).Int())
	}
	switch args[0].Len() {
	case 1:
		return 20 * steps(1, n[0], 1)
	case 2:
		return 20 * steps(n[0], n[1], 1)
	case 3:
		return 20 * steps(n[0], n[2], n[1])
	}
	return 0
}

func replaced(args []reflect.Value) float64 {
	if n := (length(args, 1) + 1) * length(args, 2); n <= maxOutput {
		return n
	}
	re, err := regexp.Compile(textOf(args, 0))
	if err != nil {
		return 0
	}
	return float64(len(re.FindAllStringIndex(textOf(args, 1), -1))) * (length(args, 2) + 1)
}
