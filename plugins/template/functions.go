package template

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"text/template"
)

// allFunctions returns the functions of all templates. The map is not modified.
var allFunctions = sync.OnceValue(func() template.FuncMap {
	funcs := library()
	// Functions of text/template that make text are repeated here, to be bounded.
	funcs["print"], funcs["printf"], funcs["println"] = fmt.Sprint, fmt.Sprintf, fmt.Sprintln
	funcs["html"] = template.HTMLEscaper
	funcs["js"] = template.JSEscaper
	funcs["urlquery"] = template.URLQueryEscaper
	return funcs
})

// mutators change their first argument.
var mutators = map[string]bool{
	"set": true, "merge": true, "mergeOverwrite": true, "mustMerge": true, "mustMergeOverwrite": true,
}

// growth says, for functions whose result may be much greater than their arguments, how
// many bytes they make at most.
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
	"regexReplaceAll":            replaced,
	"mustRegexReplaceAll":        replaced,
	"regexReplaceAllLiteral":     replaced,
	"mustRegexReplaceAllLiteral": replaced,
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

// count bounds the functions that make as many random characters as they are asked for,
// and take long for each.
func count(args []reflect.Value) float64 { return 64 * number(args, 0) }

func steps(start, stop, step float64) float64 {
	if step == 0 {
		return 0
	}
	return math.Abs(stop-start)/math.Abs(step) + 1
}

func seqSize(args []reflect.Value) float64 {
	var n [3]float64
	for i := range min(3, args[0].Len()) { // variadic
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
