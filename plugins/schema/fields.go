package schema

// Field describes the values of a field.
type Field struct {
	Name string
	// Types are the types of the values, without null: more than one in a union.
	Types []FieldType
}

// FieldType is a type of values.
type FieldType struct {
	Avro      string // name of the Avro type, such as long
	Logical   string // logical type, such as timestamp-micros; empty if it has none, or an unknown one
	Precision int    // of a decimal
	Scale     int    // of a decimal
}

// Fields returns the fields of the schema in their order. A schema of a map has none.
func (c *Codec) Fields() []Field {
	fields := make([]Field, len(c.root.fields))
	for i, f := range c.root.fields {
		fields[i] = Field{Name: f.name}
		branches := f.typ.branches
		if f.typ.kind != avroUnion {
			branches = []*avroType{f.typ}
		}
		for _, t := range branches {
			if t.kind != avroNull {
				fields[i].Types = append(fields[i].Types, FieldType{t.name, t.logical, t.digits, t.scale})
			}
		}
	}
	return fields
}
