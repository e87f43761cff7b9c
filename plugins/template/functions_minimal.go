//go:build minimal

package template

import (
	"fmt"
	"strconv"
	"strings"
	"text/template"
)

// library returns the functions added to those in text/template: the most common functions of sprig.
func library() template.FuncMap {
	return template.FuncMap{
		"toString":   func(v any) string { return plainText(v) },
		"toJson":     toJSON,
		"contains":   func(part, s string) bool { return strings.Contains(s, part) },
		"hasPrefix":  func(part, s string) bool { return strings.HasPrefix(s, part) },
		"hasSuffix":  func(part, s string) bool { return strings.HasSuffix(s, part) },
		"replace":    func(old, by, s string) string { return strings.ReplaceAll(s, old, by) },
		"trimPrefix": func(part, s string) string { return strings.TrimPrefix(s, part) },
		"trimSuffix": func(part, s string) string { return strings.TrimSuffix(s, part) },
		"upper":      strings.ToUpper,
		"lower":      strings.ToLower,
		"trim":       strings.TrimSpace,
		"quote":      func(v any) string { return strconv.Quote(plainText(v)) },
		"default": func(otherwise, v any) any {
			if truth, ok := template.IsTrue(v); !ok || !truth {
				return otherwise
			}
			return v
		},
	}
}

func plainText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case error:
		return v.Error()
	}
	return fmt.Sprint(v)
}
