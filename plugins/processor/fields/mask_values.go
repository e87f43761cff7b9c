package fields

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/record"
)

// field hides the value of a field, whatever its type. The field is set once all fields of the record are hidden: a
// refused record has no value that is a hash already.
func (m *mask) field(r *record.Record, ref *fieldref.Ref) error {
	v, ok, err := ref.Get(r)
	if err != nil || !ok || v == nil {
		return err
	}
	hidden, err := m.one(v)
	if err != nil {
		return fmt.Errorf("cannot hide %s: %w", ref, err)
	}
	m.sets = append(m.sets, replacement{ref, hidden})
	return nil
}

// one returns what replaces a value. With deep, it replaces the values in a list or an object one by one.
func (m *mask) one(v any) (any, error) {
	if m.deep {
		switch v := v.(type) {
		case []any:
			all := make([]any, len(v))
			for i, inner := range v {
				var err error
				if all[i], err = m.one(inner); err != nil {
					return nil, err
				}
			}
			return all, nil
		case map[string]any:
			all := make(map[string]any, len(v))
			for k, inner := range v {
				var err error
				if all[k], err = m.one(inner); err != nil {
					return nil, err
				}
			}
			return all, nil
		case nil:
			return nil, nil
		}
	}
	text, err := textOf(v, false)
	if err != nil {
		return nil, err
	}
	return m.hide(text)
}

// below masks all texts in a field and in the fields below it.
func (m *mask) below(r *record.Record, ref *fieldref.Ref) error {
	switch ref.Root() {
	case fieldref.Payload:
		for _, side := range []*record.Data{&r.Before, &r.After} {
			if err := m.data(side); err != nil {
				return fmt.Errorf("cannot hide texts in %s: %w", ref, err)
			}
		}
		return nil
	case fieldref.Metadata:
		if !ref.IsNested() {
			return m.metadata(r, ref)
		}
	}
	v, ok, err := ref.Get(r)
	if err != nil || !ok || v == nil {
		return err
	}
	masked, changed, err := m.value(v)
	if err != nil {
		return fmt.Errorf("cannot hide texts in %s: %w", ref, err)
	}
	if changed {
		return ref.Set(r, masked)
	}
	return nil
}

func (m *mask) metadata(r *record.Record, ref *fieldref.Ref) error {
	all := slices.Clone(r.Metadata)
	for i, f := range all {
		if !strings.HasPrefix(f.Key, "opencdc.") && !strings.HasPrefix(f.Key, "conduit.") {
			var err error
			if all[i].Value, err = m.text(f.Value); err != nil {
				return fmt.Errorf("cannot hide texts in %s: %w", ref, err)
			}
		}
	}
	r.Metadata = all
	return nil
}

func (m *mask) data(d *record.Data) error {
	masked, changed, err := m.value(fieldref.Value(*d))
	if err == nil && changed {
		*d, _ = fieldref.Data(masked)
	}
	return err
}

// value masks all texts in v. Objects and lists are changed in place; changed reports that the returned value replaces
// v.
func (m *mask) value(v any) (_ any, changed bool, err error) {
	switch v := v.(type) {
	case string:
		s, err := m.text(v)
		return s, s != v, err
	case []byte:
		if !utf8.Valid(v) {
			return v, false, nil
		}
		s, err := m.text(string(v))
		return []byte(s), s != string(v), err
	case map[string]any:
		for k, inner := range v {
			masked, changed, err := m.value(inner)
			if err != nil {
				return nil, false, err
			}
			if changed {
				v[k] = masked
			}
		}
	case []any:
		for i, inner := range v {
			masked, changed, err := m.value(inner)
			if err != nil {
				return nil, false, err
			}
			if changed {
				v[i] = masked
			}
		}
	}
	return v, false, nil
}

// text hides the matches in s, or all of s if there are no patterns.
func (m *mask) text(s string) (string, error) {
	if len(m.find) == 0 {
		return m.hide(s)
	}
	for _, p := range m.find {
		if !p.expr.MatchString(s) {
			continue
		}
		var failed error
		s = p.expr.ReplaceAllStringFunc(s, func(match string) string {
			hidden, err := m.match(p, match)
			if err != nil {
				failed = fmt.Errorf("cannot hide a match of %s: %w", p.expr, err)
			}
			return hidden
		})
		if failed != nil {
			return "", failed
		}
	}
	return s, nil
}

// match hides what p finds in a match.
func (m *mask) match(p pattern, match string) (string, error) {
	if p.within == nil {
		return m.hide(match)
	}
	var out strings.Builder
	for match != "" {
		from, to, ok := p.within(match)
		if !ok {
			break
		}
		hidden, err := m.hide(match[from:to])
		if err != nil {
			return "", err
		}
		out.WriteString(match[:from])
		out.WriteString(hidden)
		match = match[to:]
	}
	out.WriteString(match)
	return out.String(), nil
}
