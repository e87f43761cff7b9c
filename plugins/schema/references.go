package schema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// reference is a type that another subject defines.
type reference struct {
	Name    string `json:"name"` // full name of the type
	Subject string `json:"subject"`
	Version int    `json:"version"`
}

// Limits of references, direct and indirect.
const (
	maxReferences = 200
	maxReferred   = 4 << 20 // bytes of schemas
	maxNesting    = 1000    // nesting of types
)

// resolver inserts the definitions of referenced types into a schema.
type resolver struct {
	registry    *ConfluentRegistry
	seen        map[reference]bool
	definitions map[string]map[string]any // by full name, without those already inserted
	bytes       int
	nesting     int
}

// resolve returns the text of a schema in which the first use of each type from another subject is replaced by its
// definition.
func (r *ConfluentRegistry) resolve(ctx context.Context, a *answer) (string, error) {
	s := resolver{registry: r, seen: map[reference]bool{}, definitions: map[string]map[string]any{}}
	if err := s.fetch(ctx, a.References); err != nil {
		return "", err
	}
	root, err := parse(a.Schema)
	if err != nil {
		return "", err
	}
	if root, err = s.insert(root, ""); err != nil {
		return "", err
	}
	text, err := json.Marshal(root)
	return string(text), err
}

func parse(text string) (v any, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber() // keeps the digits of defaults
	if err = d.Decode(&v); err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("text follows the schema")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidSchema, err)
	}
	return v, nil
}

// fetch gets the definitions of types, and of the types they refer to.
func (s *resolver) fetch(ctx context.Context, all []reference) error {
	for _, ref := range all {
		if s.seen[ref] {
			continue
		}
		if s.seen[ref] = true; len(s.seen) > maxReferences {
			return fmt.Errorf("%w: it references more than %d other schemas", ErrInvalidSchema, maxReferences)
		}
		a, err := s.registry.do(ctx, http.MethodGet, nil, "subjects", ref.Subject, "versions",
			strconv.Itoa(ref.Version))
		if err != nil {
			return fmt.Errorf("cannot get type %q, version %d of subject %q: %w", ref.Name, ref.Version, ref.Subject,
				err)
		}
		if s.bytes += len(a.Schema); s.bytes > maxReferred {
			return fmt.Errorf("%w: it references more than %d MiB of other schemas", ErrInvalidSchema, maxReferred>>20)
		}
		v, err := parse(a.Schema)
		if err != nil {
			return fmt.Errorf("cannot read type %q, version %d of subject %q: %w", ref.Name, ref.Version, ref.Subject,
				err)
		}
		definition, ok := v.(map[string]any)
		if !ok || confluentName(definition, "") != ref.Name {
			return fmt.Errorf("%w: version %d of subject %q does not define the type %q", ErrInvalidSchema, ref.Version,
				ref.Subject, ref.Name)
		}
		if _, own := definition["namespace"]; !own {
			definition["namespace"] = "" // otherwise it would inherit the namespace of the place of insertion
		}
		s.definitions[ref.Name] = definition
		if err := s.fetch(ctx, a.References); err != nil {
			return err
		}
	}
	return nil
}

// confluentName returns the name of the type that a definition in this namespace defines, or "" if it defines none.
func confluentName(definition map[string]any, namespace string) string {
	name, _ := definition["name"].(string)
	if own, ok := definition["namespace"].(string); ok {
		namespace = own
	}
	return join(namespace, name)
}

func join(namespace, name string) string {
	if namespace == "" || name == "" || strings.Contains(name, ".") {
		return name
	}
	return namespace + "." + name
}

// insert returns the type v, which is in a namespace, with the definitions it needs.
func (s *resolver) insert(v any, namespace string) (_ any, err error) {
	if s.nesting++; s.nesting > maxNesting {
		return nil, fmt.Errorf("%w: its types are nested more than %d deep", ErrInvalidSchema, maxNesting)
	}
	defer func() { s.nesting-- }()
	switch v := v.(type) {
	case string:
		for _, name := range []string{join(namespace, v), v} {
			if definition := s.definitions[name]; definition != nil {
				delete(s.definitions, name)
				return s.insert(definition, "")
			}
		}
	case []any:
		for i := range v {
			if v[i], err = s.insert(v[i], namespace); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		return v, s.insertInto(v, namespace)
	}
	return v, nil
}

func (s *resolver) insertInto(o map[string]any, namespace string) (err error) {
	if name := confluentName(o, namespace); name != "" {
		namespace = name[:max(0, strings.LastIndexByte(name, '.'))]
	}
	fields, _ := o["fields"].([]any)
	for _, field := range fields {
		if f, ok := field.(map[string]any); ok {
			if f["type"], err = s.insert(f["type"], namespace); err != nil {
				return err
			}
		}
	}
	for _, key := range []string{"type", "items", "values"} {
		if v, has := o[key]; has {
			if o[key], err = s.insert(v, namespace); err != nil {
				return err
			}
		}
	}
	return nil
}
