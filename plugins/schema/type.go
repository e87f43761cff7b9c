package schema

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/twmb/avro"
)

// avroKind is a kind of Avro type.
type avroKind uint8

const (
	avroNull avroKind = iota
	avroBoolean
	avroInt
	avroLong
	avroFloat
	avroDouble
	avroString
	avroBytes
	avroFixed
	avroEnum
	avroArray
	avroMap
	avroRecord
	avroUnion
)

var avroKinds = map[string]avroKind{
	"null": avroNull, "boolean": avroBoolean, "int": avroInt, "long": avroLong, "float": avroFloat,
	"double": avroDouble,
	"string": avroString, "bytes": avroBytes, "fixed": avroFixed, "enum": avroEnum, "array": avroArray, "map": avroMap,
	"record": avroRecord, "error": avroRecord, "union": avroUnion,
}

// Logical types. Other annotations are ignored.
const (
	logicalDecimal              = "decimal"
	logicalDate                 = "date"
	logicalTimeMillis           = "time-millis"
	logicalTimeMicros           = "time-micros"
	logicalTimestampMillis      = "timestamp-millis"
	logicalTimestampMicros      = "timestamp-micros"
	logicalLocalTimestampMillis = "local-timestamp-millis"
	logicalLocalTimestampMicros = "local-timestamp-micros"
	logicalTimestampNanos       = "timestamp-nanos"
	logicalLocalTimestampNanos  = "local-timestamp-nanos"
	logicalUUID                 = "uuid"
	logicalDuration             = "duration"
	// logicalJSON is not a standard logical type of Avro, so other readers see text. The text is JSON of any value. It
	// is used for numbers that a double would change, and for database columns that hold JSON.
	logicalJSON = "json"
	// logicalNumeric is not a standard logical type either. The text is a number, such as a numeric of a database, whose
	// precision and scale the attributes of these names have if it is limited.
	logicalNumeric = "numeric"
)

// logicals lists the types that each logical type may annotate.
var logicals = map[string][]avroKind{
	logicalDecimal: {avroBytes, avroFixed}, logicalDate: {avroInt}, logicalTimeMillis: {avroInt},
	logicalTimeMicros:      {avroLong},
	logicalTimestampMillis: {avroLong}, logicalTimestampMicros: {avroLong},
	logicalLocalTimestampMillis: {avroLong}, logicalLocalTimestampMicros: {avroLong},
	logicalTimestampNanos: {avroLong}, logicalLocalTimestampNanos: {avroLong},
	logicalUUID: {avroFixed}, logicalDuration: {avroFixed}, logicalJSON: {avroString},
	logicalNumeric: {avroString},
}

// avroType is a type of a parsed schema, prepared for encoding and decoding. References to named types are pointers, so
// a recursive schema is a cycle.
type avroType struct {
	kind     avroKind
	name     string         // name of the kind in schemas
	logical  string         // "" if it has none, or an unknown one
	natural  kind           // kind of values that the type is made for
	fields   []avroField    // of a record
	branches []*avroType    // of a union
	nullable bool           // a union with a null
	items    *avroType      // of an array, or the values of a map
	symbols  []string       // of an enum
	indexOf  map[string]int // index of each symbol
	size     int            // of a fixed
	scale    int            // of a decimal
	digits   int            // maximum digits of a decimal; 0: no limit
}

type avroField struct {
	name       string
	typ        *avroType
	fallback   any // the default
	hasDefault bool
}

// parseType parses an Avro schema in JSON.
func parseType(text string) (*avroType, error) {
	if len(text) > maxText {
		return nil, errSchemaSize
	}
	root, err := parseAvro(text)
	if err != nil {
		if cleaned, changed := ignoreInvalidDecimals(text); changed {
			root, err = parseAvro(cleaned)
		}
	}
	if err != nil {
		return nil, err
	}
	c := compiler{named: map[string]*avroType{}}
	return c.compile(root, "")
}

// parseAvro parses an Avro schema in JSON.
func parseAvro(text string) (*avro.SchemaNode, error) {
	s, err := avro.Parse(text)
	if err != nil {
		return nil, err
	}
	return s.Root(), nil
}

// compiler converts the nodes of a schema to types.
type compiler struct {
	named map[string]*avroType // by full name
}

func (c *compiler) compile(n *avro.SchemaNode, namespace string) (*avroType, error) {
	k, known := avroKinds[n.Type]
	if !known {
		return c.reference(n.Type, namespace)
	}
	t := &avroType{kind: k, name: n.Type, logical: logicalOf(k, n.LogicalType),
		size: n.Size, scale: n.Scale, digits: n.Precision, symbols: n.Symbols}
	if t.logical == logicalUUID && t.size != 16 || t.logical == logicalDuration && t.size != 12 {
		t.logical = "" // the type cannot hold such values
	}
	if t.logical == logicalNumeric { // the parser has these attributes of decimals only
		t.digits, _ = strconv.Atoi(fmt.Sprint(n.Props["precision"]))
		t.scale, _ = strconv.Atoi(fmt.Sprint(n.Props["scale"]))
	}
	t.natural = naturalKind(t)
	if err := checkScale(t); err != nil {
		return nil, err
	}
	if k == avroEnum {
		t.indexOf = make(map[string]int, len(n.Symbols))
		for i, symbol := range n.Symbols {
			t.indexOf[symbol] = i
		}
	}
	if n.Name != "" {
		name := fullName(n.Name, n.Namespace)
		namespace = name[:max(0, strings.LastIndexByte(name, '.'))]
		c.named[name] = t
	}
	var err error
	switch k {
	case avroArray:
		t.items, err = c.compile(n.Items, namespace)
	case avroMap:
		t.items, err = c.compile(n.Values, namespace)
	case avroUnion:
		err = c.union(t, n.Branches, namespace)
	case avroRecord:
		err = c.record(t, n.Fields, namespace)
	}
	return t, err
}

func (c *compiler) union(t *avroType, branches []avro.SchemaNode, namespace string) error {
	for i := range branches {
		branch, err := c.compile(&branches[i], namespace)
		if err != nil {
			return err
		}
		t.branches = append(t.branches, branch)
		t.nullable = t.nullable || branch.kind == avroNull
	}
	return nil
}

func (c *compiler) record(t *avroType, fields []avro.SchemaField, namespace string) error {
	for i := range fields {
		f := &fields[i]
		typ, err := c.compile(&f.Type, namespace)
		if err != nil {
			return err
		}
		t.fields = append(t.fields, avroField{name: f.Name, typ: typ, fallback: f.Default, hasDefault: f.HasDefault})
	}
	return nil
}

// reference returns the type with this name, which is relative to the namespace unless it has a dot.
func (c *compiler) reference(name, namespace string) (*avroType, error) {
	if t := c.named[fullName(name, namespace)]; t != nil {
		return t, nil
	}
	if t := c.named[name]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("unknown type %q", name)
}

func fullName(name, namespace string) string {
	if namespace == "" || strings.Contains(name, ".") {
		return name
	}
	return namespace + "." + name
}

func logicalOf(k avroKind, logical string) string {
	for _, fits := range logicals[logical] {
		if fits == k {
			return logical
		}
	}
	return ""
}

// naturalKind returns the kind of values that t is made for.
func naturalKind(t *avroType) kind {
	switch t.kind {
	case avroNull:
		return kindNull
	case avroBoolean:
		return kindBool
	case avroInt, avroLong:
		switch t.logical {
		case "", logicalTimeMillis, logicalTimeMicros:
			return kindLong
		}
		return kindTime
	case avroFloat, avroDouble:
		return kindDouble
	case avroString, avroEnum:
		if t.logical == logicalJSON {
			return kindNumber
		}
		return kindString
	case avroBytes, avroFixed:
		return kindBytes
	case avroArray:
		return kindArray
	}
	return kindObject
}

// ignoreInvalidDecimals returns the schema without the logical types that are invalid decimals, and whether it removed
// any. The Avro specification demands that invalid logical types are ignored; the parser refuses them.
func ignoreInvalidDecimals(text string) (string, bool) {
	var v any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber() // keeps all digits of defaults
	if decoder.Decode(&v) != nil || decoder.More() || !removeInvalidDecimals(v) {
		return text, false
	}
	cleaned, err := json.Marshal(v)
	return string(cleaned), err == nil
}

func removeInvalidDecimals(v any) (changed bool) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			changed = removeInvalidDecimals(item) || changed
		}
	case map[string]any:
		for _, item := range v {
			changed = removeInvalidDecimals(item) || changed
		}
		if v["logicalType"] == logicalDecimal && !validDecimal(v) {
			delete(v, "logicalType")
			changed = true
		}
	}
	return changed
}

// validDecimal reports whether the attributes of a decimal conform to the Avro specification: a fixed must have space
// for all digits.
func validDecimal(attributes map[string]any) bool {
	precision, scale := number(attributes["precision"]), number(attributes["scale"])
	if attributes["type"] == "fixed" && precision > math.Floor(math.Log10(2)*(8*number(attributes["size"])-1)) {
		return false
	}
	return precision >= 1 && scale >= 0 && scale <= precision
}

// number returns the value of v if it is a json.Number, and 0 otherwise.
func number(v any) float64 {
	n, _ := v.(json.Number)
	f, _ := n.Float64()
	return f
}
