package avro

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/spec/lazy"
)

// maxNesting bounds the nesting of types.
const maxNesting = 1000

// ParseStrict parses an Avro schema according to the specification alone, version 1.12, without the library of the full
// build. The library accepts every schema that ParseStrict accepts, with the same types, but is more lenient.
// ParseStrict refuses
//   - references to types that are defined further down,
//   - fields with the attributes of their type,
//   - numbers as text,
//   - integers with a point or an exponent as defaults of int and long.
func ParseStrict(text string) (*Node, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, fmt.Errorf("invalid schema: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("invalid schema: there is text behind it")
	}
	var root Node
	p := parser{named: map[string]*named{}}
	if _, err := p.parse(v, &root, ""); err != nil {
		return nil, fmt.Errorf("invalid schema: %w", err)
	}
	return &root, nil
}

// parser parses one schema.
type parser struct {
	named   map[string]*named // by full name
	nesting int
}

// named is a record, an enum or a fixed. References to it may use different names.
type named struct {
	node *Node
	full string
	open bool // not all fields are parsed yet
	// types are the types of the fields, with references resolved.
	types []resolved
}

// resolved is a type with its references resolved.
type resolved struct {
	node     *Node
	named    *named     // of a record, an enum or a fixed
	elements []resolved // branches of a union; otherwise items or values
}

var primitives = []string{"null", "boolean", "int", "long", "float", "double", "bytes", "string"}

// structure holds the attributes that describe the components of a type, with the types that have them.
var structure = map[string][]string{
	"fields": {"record", "error"}, "symbols": {"enum"}, "items": {"array"}, "values": {"map"}, "size": {"fixed"},
	"name": {"record", "error", "enum", "fixed"},
}

func (p *parser) parse(v any, n *Node, namespace string) (resolved, error) {
	if p.nesting++; p.nesting > maxNesting {
		return resolved{}, fmt.Errorf("types are nested more than %d deep", maxNesting)
	}
	defer func() { p.nesting-- }()
	switch v := v.(type) {
	case string:
		return p.name(v, n, namespace)
	case []any:
		return p.union(v, n, namespace)
	case map[string]any:
		return p.object(v, n, namespace)
	}
	return resolved{}, errors.New("a type is neither a string nor an object nor an array")
}

// name parses the name of a primitive type or of a type defined before.
func (p *parser) name(name string, n *Node, namespace string) (resolved, error) {
	n.Type = name
	if slices.Contains(primitives, name) {
		return resolved{node: n}, nil
	}
	target := p.named[join(namespace, name)]
	if target == nil {
		target = p.named[name]
	}
	if target == nil {
		return resolved{}, fmt.Errorf("unknown type %q", name)
	}
	return resolved{node: target.node, named: target}, nil
}

func join(namespace, name string) string {
	if namespace == "" || strings.Contains(name, ".") {
		return name
	}
	return namespace + "." + name
}

func (p *parser) union(branches []any, n *Node, namespace string) (resolved, error) {
	n.Type, n.Branches = "union", make([]Node, len(branches))
	r := resolved{node: n}
	seen := map[string]bool{}
	for i, b := range branches {
		branch, err := p.parse(b, &n.Branches[i], namespace)
		if err != nil {
			return r, err
		}
		key := branch.node.Type
		if branch.named != nil {
			key = branch.named.full
		}
		if key == "union" || seen[key] {
			return r, fmt.Errorf("a union has another one in it, or the type %q twice", key)
		}
		seen[key] = true
		r.elements = append(r.elements, branch)
	}
	return r, nil
}

func (p *parser) object(o map[string]any, n *Node, namespace string) (resolved, error) {
	kind, ok := o["type"].(string)
	if !ok {
		return resolved{}, errors.New(`"type" is missing or not a string`)
	}
	for key, kinds := range structure {
		_, has := o[key]
		if ignored := key != "name" && slices.Contains(primitives, kind); !ignored && has != slices.Contains(kinds, kind) {
			return resolved{}, fmt.Errorf("%q is missing in, or not for, the type %q", key, kind)
		}
	}
	n.Type = kind
	n.LogicalType, _ = o["logicalType"].(string)
	switch kind {
	case "array", "map":
		return p.container(o, n, namespace)
	case "record", "error", "enum", "fixed":
		return p.definition(o, n, namespace)
	}
	r, err := p.name(kind, n, namespace)
	if err == nil && kind == "bytes" && n.LogicalType == "decimal" {
		err = decimal(o, n, math.MaxInt)
	}
	return r, err
}

func (p *parser) container(o map[string]any, n *Node, namespace string) (resolved, error) {
	content := &Node{}
	of := o["items"]
	if n.Type == "array" {
		n.Items = content
	} else {
		n.Values, of = content, o["values"]
	}
	element, err := p.parse(of, content, namespace)
	return resolved{node: n, elements: []resolved{element}}, err
}

var (
	validName     = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)
	validFullName = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)
)

// definition parses a record, an enum or a fixed.
func (p *parser) definition(o map[string]any, n *Node, namespace string) (r resolved, err error) {
	name, ok := o["name"].(string)
	if !ok || !validFullName().MatchString(name) {
		return r, fmt.Errorf("invalid name %v", o["name"])
	}
	if own, has := o["namespace"]; has {
		if namespace, ok = own.(string); !ok || namespace != "" && !validFullName().MatchString(namespace) {
			return r, fmt.Errorf("invalid namespace %v", own)
		}
	}
	n.Name, n.Namespace = name, namespace
	full := join(namespace, name)
	if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
		n.Namespace = ""
	}
	if p.named[full] != nil || slices.Contains(primitives, full) {
		return r, fmt.Errorf("the name %q is taken", full)
	}
	if _, err := texts(o, "aliases"); err != nil {
		return r, err
	}
	d := &named{node: n, full: full}
	p.named[full] = d
	r = resolved{node: n, named: d}
	switch n.Type {
	case "enum":
		return r, enum(o, n)
	case "fixed":
		return r, fixed(o, n)
	}
	return r, p.record(o, d, full[:max(0, strings.LastIndexByte(full, '.'))])
}

// texts returns the strings in an array, or nil if there is no array.
func texts(o map[string]any, key string) (all []string, err error) {
	v, has := o[key]
	list, ok := v.([]any)
	if has && !ok {
		return nil, fmt.Errorf("%q is not an array", key)
	}
	for _, one := range list {
		text, ok := one.(string)
		if !ok {
			return nil, fmt.Errorf("%q has something that is not a string", key)
		}
		all = append(all, text)
	}
	return all, nil
}

func enum(o map[string]any, n *Node) (err error) {
	if n.Symbols, err = texts(o, "symbols"); err != nil {
		return err
	}
	seen := make(map[string]bool, len(n.Symbols))
	for _, symbol := range n.Symbols {
		if !validName().MatchString(symbol) || seen[symbol] {
			return fmt.Errorf("the symbol %q is invalid, or there twice", symbol)
		}
		seen[symbol] = true
	}
	if fallback, has := o["default"]; has {
		if symbol, ok := fallback.(string); !ok || !slices.Contains(n.Symbols, symbol) {
			return fmt.Errorf("the default %v is not a symbol", fallback)
		}
	}
	return nil
}

func fixed(o map[string]any, n *Node) (err error) {
	if n.Size, err = whole(o, "size", math.MaxInt32); err != nil || n.LogicalType != "decimal" {
		return err
	}
	return decimal(o, n, int(math.Floor(math.Log10(2)*float64(8*n.Size-1))))
}

// whole returns a non-negative integer.
func whole(o map[string]any, key string, most int) (int, error) {
	number, _ := o[key].(json.Number)
	i, err := strconv.Atoi(string(number))
	if err != nil || i < 0 || i > most {
		return 0, fmt.Errorf("%q is not a whole number from 0 to %d", key, most)
	}
	return i, nil
}

// decimal parses the attributes of a decimal with at most digits digits.
func decimal(o map[string]any, n *Node, digits int) (err error) {
	const most = 1 << 16 // maximum precision of a value
	if n.Precision, err = whole(o, "precision", min(most, digits)); err != nil {
		return err
	}
	if _, has := o["scale"]; has {
		if n.Scale, err = whole(o, "scale", n.Precision); err != nil {
			return err
		}
	}
	if n.Precision == 0 {
		return errors.New(`"precision" is 0`)
	}
	return nil
}

func (p *parser) record(o map[string]any, d *named, namespace string) error {
	fields, ok := o["fields"].([]any)
	if !ok {
		return errors.New(`"fields" is not an array`)
	}
	n := d.node
	n.Fields = make([]Field, len(fields))
	d.open = true
	seen := map[string]bool{}
	for i, v := range fields {
		field, ok := v.(map[string]any)
		if !ok {
			return errors.New("a field is not an object")
		}
		if err := p.field(field, &n.Fields[i], d, namespace); err != nil {
			return fmt.Errorf("%s, field %d: %w", d.full, i+1, err)
		}
		aliases, err := texts(field, "aliases")
		if err != nil {
			return err
		}
		for _, name := range append(aliases, n.Fields[i].Name) {
			if seen[name] {
				return fmt.Errorf("two fields of %s have the name or alias %q", d.full, name)
			}
			seen[name] = true
		}
	}
	d.open = false
	return nil
}

// misplaced are attributes of a type that must not be attributes of the field.
var misplaced = []string{"fields", "symbols", "items", "values", "size", "precision", "scale"}

func (p *parser) field(o map[string]any, f *Field, d *named, namespace string) (err error) {
	var ok bool
	if f.Name, ok = o["name"].(string); !ok || !validName().MatchString(f.Name) {
		return fmt.Errorf("invalid name %v", o["name"])
	}
	for _, key := range misplaced {
		if _, has := o[key]; has {
			return fmt.Errorf("%q belongs into the type of the field", key)
		}
	}
	if order, has := o["order"]; has && order != "ascending" && order != "descending" && order != "ignore" {
		return fmt.Errorf("invalid order %v", order)
	}
	typ, err := p.parse(o["type"], &f.Type, namespace)
	if err != nil {
		return err
	}
	d.types = append(d.types, typ)
	fallback, has := o["default"]
	if f.HasDefault = has; has {
		if f.Default, err = value(fallback, typ); err != nil {
			return fmt.Errorf("invalid default of %q: %w", f.Name, err)
		}
	}
	return nil
}
