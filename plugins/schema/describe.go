package schema

// Description describes an Avro type to packages that translate schemas. A recursive type is a cycle of pointers.
type Description struct {
	Type      string // as in a schema, for example "record", "union" or "long"
	Logical   string // the logical type; "" if there is none, or it is unknown or does not suit the type
	Precision int    // maximum number of digits of a decimal or numeric; 0: there is no limit
	Scale     int    // decimal places of a decimal or numeric
	Fields    []DescribedField
	Branches  []*Description // of a union
	Items     *Description   // of an array, or the values of a map
}

// DescribedField is a field of a record.
type DescribedField struct {
	Name string
	Type *Description
}

// Describe returns the description of the objects of a schema.
func Describe(c *Codec) *Description { return describe(c.root, map[*avroType]*Description{}) }

func describe(t *avroType, known map[*avroType]*Description) *Description {
	if t == nil {
		return nil
	}
	if d := known[t]; d != nil {
		return d
	}
	d := &Description{Type: t.name, Logical: t.logical}
	known[t] = d
	if t.logical == logicalDecimal || t.logical == logicalNumeric {
		d.Precision, d.Scale = t.digits, t.scale
	}
	for i := range t.fields {
		f := &t.fields[i]
		d.Fields = append(d.Fields, DescribedField{f.name, describe(f.typ, known)})
	}
	for _, branch := range t.branches {
		d.Branches = append(d.Branches, describe(branch, known))
	}
	d.Items = describe(t.items, known)
	return d
}
