package binlog

import (
	"bytes"
	"fmt"
)

// Table describes a table, from a table map event.
type Table struct {
	ID           uint64
	Schema, Name string
	Columns      []Column
	Named        bool  // the log names the columns
	Key          []int // columns of the primary key, if the log has them
	Tag          any   // set by the reader

	raw []byte // the event
}

// Column is a column of a table. The reader fills in the fields that the log omits before it decodes rows.
type Column struct {
	Name     string
	Type     byte // real type: also ENUM and SET
	Meta     uint16
	Unsigned bool
	Charset  int      // collation id; 0: unknown
	Values   []string // for ENUM and SET
	// Convert decodes the bytes of a character string or BLOB. If it is nil, the value is a UTF-8 string, or bytes if
	// Binary is set. Convert must not retain b.
	Convert func(b []byte) (any, error)
	Binary  bool
	Skip    bool // do not decode the column
}

// Types of columns.
const (
	TypeTiny              = 1
	TypeShort             = 2
	TypeLong              = 3
	TypeFloat             = 4
	TypeDouble            = 5
	TypeNull              = 6
	TypeTimestamp         = 7
	TypeLongLong          = 8
	TypeInt24             = 9
	TypeDate              = 10
	TypeTime              = 11
	TypeDateTime          = 12
	TypeYear              = 13
	TypeNewDate           = 14
	TypeVarchar           = 15
	TypeBit               = 16
	TypeTimestamp2        = 17
	TypeDateTime2         = 18
	TypeTime2             = 19
	TypeBlobCompressed    = 140
	TypeVarcharCompressed = 141
	TypeVector            = 242
	TypeJSON              = 245
	TypeNewDecimal        = 246
	TypeEnum              = 247
	TypeSet               = 248
	TypeTinyBlob          = 249
	TypeMediumBlob        = 250
	TypeLongBlob          = 251
	TypeBlob              = 252
	TypeVarString         = 253
	TypeString            = 254
	TypeGeometry          = 255
)

// Limits of table maps. A reader keeps their descriptions until a transaction begins.
const (
	maxColumns  = 4096     // per table
	maxTableMap = 16 << 20 // bytes per description
	maxMembers  = 1 << 20  // over all ENUM and SET columns of a table
	maxKept     = 64 << 20 // approximate memory in bytes of the descriptions of a transaction
	columnSize  = 128      // approximate memory in bytes of a Column
	memberSize  = 16       // approximate memory in bytes of a member of an ENUM or SET
)

// tableMap decodes a table map. If the map is unchanged, it returns the previous table.
func (d *Decoder) tableMap(r *reader) (any, error) {
	raw := r.data
	t := &Table{ID: r.little(6)}
	if known := d.tables[t.ID]; known != nil && bytes.Equal(known.raw, raw) {
		return known, nil
	}
	if len(raw) > maxTableMap {
		return nil, fmt.Errorf("the description of a table has %d bytes, more than the maximum of %d", len(raw),
			maxTableMap)
	}
	t.raw = bytes.Clone(raw)
	r.take(2)
	t.Schema = string(r.take(int(r.uint8())))
	r.take(1)
	t.Name = string(r.take(int(r.uint8())))
	r.take(1)
	n := r.length()
	types := r.take(n)
	if r.failed || n > maxColumns {
		return nil, ErrCorrupt
	}
	meta := reader{data: r.take(r.length())}
	t.Columns = make([]Column, n)
	for i, typ := range types {
		t.Columns[i] = columnOf(typ, &meta)
	}
	r.take((n + 7) / 8)
	if r.failed || meta.failed {
		return nil, ErrCorrupt
	}
	for len(r.data) > 0 {
		kind, value := r.uint8(), reader{data: r.take(r.length())}
		if r.failed || !t.optional(kind, &value, d.maria) || value.failed {
			return nil, ErrCorrupt
		}
	}
	if d.tables == nil {
		d.tables = map[uint64]*Table{}
	}
	if known := d.tables[t.ID]; known != nil {
		d.kept -= known.size()
	}
	if d.kept += t.size(); d.kept > maxKept {
		return nil, fmt.Errorf("a transaction describes %d tables in %d bytes, more than the maximum of %d",
			len(d.tables)+1,
			d.kept, maxKept)
	}
	d.tables[t.ID] = t
	return t, nil
}

// size returns the approximate memory of t in bytes: t holds its description twice.
func (t *Table) size() int {
	n := 2*len(t.raw) + columnSize*len(t.Columns)
	for i := range t.Columns {
		n += memberSize * len(t.Columns[i].Values)
	}
	return n
}

func columnOf(typ byte, meta *reader) Column {
	c := Column{Type: typ}
	switch typ {
	case TypeFloat, TypeDouble, TypeBlob, TypeTinyBlob, TypeMediumBlob, TypeLongBlob, TypeJSON, TypeGeometry,
		TypeVector, TypeBlobCompressed, TypeTimestamp2, TypeDateTime2, TypeTime2:
		c.Meta = uint16(meta.uint8())
	case TypeVarchar, TypeVarString, TypeVarcharCompressed, TypeBit:
		c.Meta = meta.uint16()
	case TypeNewDecimal:
		c.Meta = uint16(meta.big(2))
	case TypeString, TypeEnum, TypeSet:
		high, low := meta.uint8(), meta.uint8()
		c.Type, c.Meta = high, uint16(low)
		if high&0x30 != 0x30 { // the type holds two bits of the length
			c.Type, c.Meta = high|0x30, uint16(low)|uint16(high&0x30^0x30)<<4
		}
	}
	return c
}

// Kinds of optional metadata.
const (
	metaSigns          = 1
	metaDefaultCharset = 2
	metaCharsets       = 3
	metaNames          = 4
	metaSetValues      = 5
	metaEnumValues     = 6
	metaKey            = 8
	metaKeyPrefix      = 9
	metaMemberDefault  = 10
	metaMemberCharsets = 11
)

func (t *Table) optional(kind byte, r *reader, maria bool) bool {
	switch kind {
	case metaSigns:
		bits := r.rest()
		for i, c := range t.columns(func(typ byte) bool { return isNumeric(typ) || maria && typ == TypeYear }) {
			c.Unsigned = i/8 < len(bits) && bits[i/8]&(0x80>>(i%8)) != 0
		}
	case metaDefaultCharset:
		return r.charsets(t.columns(isCharacter))
	case metaMemberDefault:
		return r.charsets(t.columns(isMember))
	case metaCharsets:
		for _, c := range t.columns(isCharacter) {
			c.Charset = r.length()
		}
	case metaMemberCharsets:
		for _, c := range t.columns(isMember) {
			c.Charset = r.length()
		}
	case metaNames:
		for i := range t.Columns {
			t.Columns[i].Name = r.text()
		}
		t.Named = true
	case metaSetValues:
		return t.values(r, TypeSet)
	case metaEnumValues:
		return t.values(r, TypeEnum)
	case metaKey, metaKeyPrefix:
		for len(r.data) > 0 && !r.failed {
			i := r.length()
			if kind == metaKeyPrefix {
				r.length()
			}
			if i >= len(t.Columns) || len(t.Key) == len(t.Columns) {
				return false
			}
			t.Key = append(t.Key, i)
		}
	}
	return true
}

// charsets takes the default collation of the columns and the exceptions to it.
func (r *reader) charsets(columns []*Column) bool {
	common := r.length()
	for _, c := range columns {
		c.Charset = common
	}
	for len(r.data) > 0 && !r.failed {
		i, charset := r.length(), r.length()
		if i >= len(columns) {
			return false
		}
		columns[i].Charset = charset
	}
	return true
}

// values takes the values of each column of a type, ENUM or SET. It returns false if there are too many.
func (t *Table) values(r *reader, columnType byte) bool {
	left := maxMembers
	for i := range t.Columns {
		left -= len(t.Columns[i].Values)
	}
	for _, c := range t.columns(func(typ byte) bool { return typ == columnType }) {
		for n := r.length(); n > 0 && !r.failed; n-- {
			if left--; left < 0 {
				return false
			}
			c.Values = append(c.Values, r.text())
		}
	}
	return true
}

func (t *Table) columns(is func(typ byte) bool) (all []*Column) {
	for i := range t.Columns {
		if is(t.Columns[i].Type) {
			all = append(all, &t.Columns[i])
		}
	}
	return all
}

func isMember(typ byte) bool { return typ == TypeEnum || typ == TypeSet }

// isNumeric reports whether the metadata has a sign for a column type.
func isNumeric(typ byte) bool {
	switch typ {
	case TypeTiny, TypeShort, TypeInt24, TypeLong, TypeLongLong, TypeNewDecimal, TypeFloat, TypeDouble:
		return true
	}
	return false
}

// isCharacter reports whether the metadata has a character set for a column type.
func isCharacter(typ byte) bool {
	switch typ {
	case TypeString, TypeVarString, TypeVarchar, TypeVarcharCompressed, TypeBlobCompressed, TypeTinyBlob,
		TypeMediumBlob, TypeLongBlob, TypeBlob:
		return true
	}
	return false
}
