package fields

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/record"
)

// whole hides the value of a field, whatever its type.
func (m *mask) whole(r *record.Record, ref *fieldref.Ref) error {
	v, ok, err := ref.Get(r)
	if err != nil || !ok || v == nil {
		return err
	}
	text, err := textOf(v, false)
	if err != nil {
		return fmt.Errorf("cannot hide %s: %w", ref, err)
	}
	return ref.Set(r, m.hide(text))
}

// below masks all texts in a field and in the fields below it.
func (m *mask) below(r *record.Record, ref *fieldref.Ref) error {
	switch ref.Root() {
	case fieldref.Payload:
		for _, side := range []*record.Data{&r.Before, &r.After} {
			m.data(side)
		}
		return nil
	case fieldref.Metadata:
		if !ref.IsNested() {
			r.Metadata = slices.Clone(r.Metadata)
			for i, f := range r.Metadata {
				if !strings.HasPrefix(f.Key, "opencdc.") && !strings.HasPrefix(f.Key, "conduit.") {
					r.Metadata[i].Value = m.text(f.Value)
				}
			}
			return nil
		}
	}
	v, ok, err := ref.Get(r)
	if err != nil || !ok || v == nil {
		return err
	}
	if masked, changed := m.value(v); changed {
		return ref.Set(r, masked)
	}
	return nil
}

func (m *mask) data(d *record.Data) {
	if masked, changed := m.value(fieldref.Value(*d)); changed {
		*d, _ = fieldref.Data(masked)
	}
}

// value masks all texts in v. Objects and lists are changed in place; changed reports that the returned value replaces
// v.
func (m *mask) value(v any) (_ any, changed bool) {
	switch v := v.(type) {
	case string:
		s := m.text(v)
		return s, s != v
	case []byte:
		if !utf8.Valid(v) {
			return v, false
		}
		s := m.text(string(v))
		return []byte(s), s != string(v)
	case map[string]any:
		for k, inner := range v {
			if masked, changed := m.value(inner); changed {
				v[k] = masked
			}
		}
	case []any:
		for i, inner := range v {
			if masked, changed := m.value(inner); changed {
				v[i] = masked
			}
		}
	}
	return v, false
}

// text hides the matches in s, or all of s if there are no patterns.
func (m *mask) text(s string) string {
	if len(m.find) == 0 {
		return m.hide(s)
	}
	for _, p := range m.find {
		if !p.expr.MatchString(s) {
			continue
		}
		s = p.expr.ReplaceAllStringFunc(s, func(match string) string {
			if p.check != nil && !p.check(match) {
				return match
			}
			return m.hide(match)
		})
	}
	return s
}
