package record

import (
	"iter"
	"strconv"
	"strings"
)

// A message may have several values with the same name, for example headers. All values are kept: in metadata the first
// one has the name as its key, and the others the name with a number, as in name[1]; in structured data the value is a
// list.

// SortRepeated is like Sort for pairs with duplicate keys, but keeps all pairs.
func (m *Metadata) SortRepeated() {
	s := *m
	for i := 1; i < len(s); i++ {
		if s[i-1].Key >= s[i].Key { // not in order
			m.number()
			break
		}
	}
	m.Sort()
}

// number adds numbers to repeated keys.
func (m *Metadata) number() {
	next := make(map[string]int, len(*m))
	for _, f := range *m {
		next[f.Key] = 0
	}
	if len(next) == len(*m) {
		return
	}
	for i := range *m {
		f := &(*m)[i]
		key, n := f.Key, next[f.Key]
		if n > 0 {
			for taken := true; taken; n++ {
				f.Key = numbered(key, n)
				_, taken = next[f.Key]
			}
			n--
		}
		next[key] = n + 1
	}
}

// Repeated yields the pairs whose keys begin with prefix, without the prefix, in the form before SortRepeated: several
// pairs with the same name if the message had several.
func (m Metadata) Repeated(prefix string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		var values map[string]string // all keys; nil: no key has a number
		for _, f := range m {
			if strings.HasPrefix(f.Key, prefix) && strings.HasSuffix(f.Key, "]") {
				values = m.Map()
				break
			}
		}
		for _, f := range m {
			name, ok := strings.CutPrefix(f.Key, prefix)
			if !ok || values != nil && isFurther(values, f.Key) {
				continue
			}
			for n, value := 1, f.Value; ok; n++ {
				if !yield(name, value) {
					return
				}
				value, ok = values[numbered(f.Key, n)]
			}
		}
	}
}

func numbered(key string, n int) string { return key + "[" + strconv.Itoa(n) + "]" }

// isFurther reports whether key has a number, and the preceding key exists.
func isFurther(values map[string]string, key string) bool {
	i := strings.LastIndexByte(key, '[')
	if i < 0 || !strings.HasSuffix(key, "]") {
		return false
	}
	n, err := strconv.Atoi(key[i+1 : len(key)-1])
	if err != nil || n < 1 || numbered(key[:i], n) != key {
		return false
	}
	before := key[:i]
	if n > 1 {
		before = numbered(before, n-1)
	}
	_, ok := values[before]
	return ok
}

// AddRepeated adds a value, which must not be a list, to the values of name in object. A second value makes it a list.
func AddRepeated(object map[string]any, name string, value any) {
	before, ok := object[name]
	switch list, isList := before.([]any); {
	case isList:
		object[name] = append(list, value)
	case ok:
		object[name] = []any{before, value}
	default:
		object[name] = value
	}
}
