package template

import (
	"cmp"
	"strings"

	"github.com/conduit-agent/conduit/plugins/record"
)

func compileCall(name string, args []expression) expression {
	switch name {
	case "eq", "ne", "lt", "le", "gt", "ge":
		if len(args) == 2 {
			return comparison(name, args[0], args[1])
		}
	case "and", "or":
		if len(args) > 0 {
			return logic(name == "or", args)
		}
	case "not":
		if len(args) == 1 {
			return not(args[0])
		}
	case "printf", "toString":
		if len(args) == 1 {
			return stringOf(args[0])
		}
	case "contains":
		return onStrings(args, func(part, s string) bool { return strings.Contains(s, part) })
	case "hasPrefix":
		return onStrings(args, func(part, s string) bool { return strings.HasPrefix(s, part) })
	case "hasSuffix":
		return onStrings(args, func(part, s string) bool { return strings.HasSuffix(s, part) })
	}
	return nil
}

func comparison(name string, left, right expression) expression {
	return func(r *record.Record) (value, bool) {
		a, ok := left(r)
		if !ok {
			return value{}, false
		}
		b, ok := right(r)
		if !ok {
			return value{}, false
		}
		if name == "eq" || name == "ne" {
			same, ok := equal(a, b)
			return truth(same == (name == "eq")), ok
		}
		c, ok := compare(a, b)
		return truth(meets(name, c)), ok
	}
}

// equal reports whether a and b are equal, and whether they can be compared here.
func equal(a, b value) (same, ok bool) {
	switch {
	case a.isText() && b.isText():
		return a.s == b.s, true
	case a.kind == missing || b.kind == missing:
		return a.kind == b.kind, true
	case a.kind == b.kind && (a.kind == integer || a.kind == boolean):
		return a.n == b.n, true
	case a.kind == b.kind && a.kind == float:
		return a.f == b.f, true
	}
	return false, false
}

func (v value) isText() bool { return v.kind == str || v.kind == raw }

func compare(a, b value) (int, bool) {
	switch {
	case a.isText() && b.isText():
		return strings.Compare(a.s, b.s), true
	case a.kind != b.kind:
		return 0, false
	case a.kind == integer:
		return cmp.Compare(a.n, b.n), true
	case a.kind == float:
		return cmp.Compare(a.f, b.f), a.f == a.f && b.f == b.f // NaN is not ordered
	}
	return 0, false
}

func meets(name string, c int) bool {
	switch name {
	case "lt":
		return c < 0
	case "le":
		return c <= 0
	case "gt":
		return c > 0
	}
	return c >= 0
}

// isTrue reports whether v counts as true in a condition.
func (v value) isTrue() bool {
	switch v.kind {
	case str, raw:
		return v.s != ""
	case integer, boolean, operation:
		return v.n != 0
	case float:
		return v.f != 0
	}
	return false
}

// logic returns the first argument whose truth value equals decides, or the last argument.
func logic(decides bool, args []expression) expression {
	return func(r *record.Record) (v value, ok bool) {
		for _, e := range args {
			if v, ok = e(r); !ok || v.isTrue() == decides {
				break
			}
		}
		return v, ok
	}
}

func not(arg expression) expression {
	return func(r *record.Record) (value, bool) {
		v, ok := arg(r)
		return truth(!v.isTrue()), ok && v.kind != missing
	}
}

func stringOf(arg expression) expression {
	return func(r *record.Record) (value, bool) {
		v, ok := arg(r)
		switch v.kind {
		case str, raw:
			return value{kind: str, s: v.s}, ok
		case operation:
			return value{kind: str, s: record.Operation(v.n).String()}, ok
		}
		return value{}, false
	}
}

func onStrings(args []expression, test func(part, s string) bool) expression {
	if len(args) != 2 {
		return nil
	}
	return func(r *record.Record) (value, bool) {
		a, ok := args[0](r)
		if !ok || a.kind != str {
			return value{}, false
		}
		b, ok := args[1](r)
		return truth(test(a.s, b.s)), ok && b.kind == str
	}
}
