package mysql

import (
	"context"
	"fmt"
	"slices"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql/binlog"
	"github.com/conduit-agent/conduit/plugins/record"
)

// metadata of records in addition to that of the OpenCDC format.
const (
	metaDatabase = "mysql.database"
	metaGTID     = "mysql.gtid"
	metaFile     = "mysql.binlog.file"
	metaPos      = "mysql.binlog.pos"  // of the transaction
	metaTime     = "mysql.commit_time" // RFC 3339, in UTC
)

// relation is a table as the log describes it, with what the catalogue adds.
type relation struct {
	*binlog.Table
	wanted     bool
	generation int   // of the catalogue
	keys       []int // columns of the primary key
	before     []any // of a row
	after      []any

	common   record.Metadata // of the records of the transaction commonOf
	commonOf int64
}

// relationOf completes a table of the log, once for each description and after each change of the catalogue.
func (st *stream) relationOf(ctx context.Context, t *binlog.Table) (*relation, error) {
	if r, ok := t.Tag.(*relation); ok && (r.generation == st.generation || !r.wanted) {
		return r, nil
	}
	r := &relation{Table: t, generation: st.generation, wanted: st.settings.wants(t.Schema, t.Name)}
	if r.wanted {
		info, err := st.describe(ctx, t.Schema, t.Name)
		if err == nil {
			err = st.complete(ctx, r, info)
		}
		if err != nil {
			return nil, err
		}
		r.before, r.after = make([]any, len(t.Columns)), make([]any, len(t.Columns))
	}
	t.Tag = r
	return r, nil
}

// describe returns what the catalogue says of a table. What it said stays until a statement changes tables.
func (st *stream) describe(ctx context.Context, schema, name string) (*tableInfo, error) {
	id := schema + "." + name
	if info := st.tables[id]; info != nil {
		return info, nil
	}
	info := &tableInfo{Schema: schema, Name: name}
	if err := info.describe(ctx, st.db); err != nil {
		return nil, err
	}
	st.tables[id] = info
	return info, nil
}

// complete adds names, signs, character sets and the key to the columns.
func (st *stream) complete(ctx context.Context, r *relation, info *tableInfo) error {
	t := r.Table
	if !t.Named && len(info.Columns) != len(t.Columns) {
		return fmt.Errorf("cannot read a change of table %s: it has %d columns, and the table has %d: the table was changed after it, and the log does not name the columns. "+
			"Changes in between cannot be read, a new snapshot is needed: delete the pipeline and declare it again; that it does not happen again: SET GLOBAL binlog_row_metadata = 'FULL'", info.ID(), len(t.Columns), len(info.Columns))
	}
	for i := range t.Columns {
		c := &t.Columns[i]
		known := columnInfo{}
		if t.Named {
			if found := info.column(c.Name); found != nil {
				known = *found
				if !st.server.maria && fits(c.Type, known.Type) { // which columns have a sign in the log of MySQL is not documented
					c.Unsigned = known.Unsigned
				}
			}
		} else {
			known = info.Columns[i]
			if !fits(c.Type, known.Type) {
				return fmt.Errorf("cannot read a change of table %s: its column %d is no %s, as column %s of the table: the table was changed after it, and the log does not name the columns. "+
					"A new snapshot is needed: delete the pipeline and declare it again; that it does not happen again: SET GLOBAL binlog_row_metadata = 'FULL'", info.ID(), i+1, known.Type, known.Name)
			}
			c.Name, c.Unsigned, c.Values = known.Name, known.Unsigned, known.Values
		}
		if err := st.completeColumn(ctx, c, &known, t.Named); err != nil {
			return fmt.Errorf("cannot read a change of table %s, column %s: %w", info.ID(), c.Name, err)
		}
	}
	r.keys = t.Key
	if !t.Named {
		r.keys = nil
		for _, k := range info.Key {
			r.keys = append(r.keys, slices.IndexFunc(t.Columns, func(c binlog.Column) bool { return c.Name == k }))
		}
	}
	return nil
}

// completeColumn says how the bytes of a column become a value.
func (st *stream) completeColumn(ctx context.Context, c *binlog.Column, known *columnInfo, named bool) (err error) {
	c.Skip = known.Generated
	if (c.Type == binlog.TypeTimestamp || c.Type == binlog.TypeDateTime || c.Type == binlog.TypeTime) && known.Precision > 0 {
		return fmt.Errorf("its fractions of seconds are in the format of before MariaDB 10.1.2: ALTER TABLE … FORCE with mysql56_temporal_format = ON")
	}
	charset := known.Charset
	if compressed := c.Type == binlog.TypeBlobCompressed || c.Type == binlog.TypeVarcharCompressed; named && c.Charset != 0 && !compressed { // of those the log says binary
		charset = st.charsets.ofID[c.Charset]
	}
	if c.Convert = known.ofBytes(); c.Convert != nil {
		return nil
	}
	c.Binary = charset == "binary" || known.binary() || !named && charset == "" && known.Type != "json"
	if c.Binary {
		return nil
	}
	convert, err := st.charsets.converter(ctx, charset)
	if err != nil {
		return err
	}
	if c.Type != binlog.TypeEnum && c.Type != binlog.TypeSet {
		c.Convert = convert
		return nil
	}
	if convert != nil && named {
		for i, v := range c.Values {
			text, err := convert([]byte(v))
			if err != nil {
				return err
			}
			c.Values[i], _ = text.(string)
		}
		c.Charset = -1 // they are UTF-8 from here on
	}
	return nil
}

// fits reports whether a column of the log can be one of the catalogue.
func fits(typ byte, declared string) bool {
	want := map[string][]byte{
		"tinyint": {binlog.TypeTiny}, "smallint": {binlog.TypeShort}, "mediumint": {binlog.TypeInt24}, "int": {binlog.TypeLong}, "bigint": {binlog.TypeLongLong},
		"float": {binlog.TypeFloat}, "double": {binlog.TypeDouble}, "decimal": {binlog.TypeNewDecimal}, "year": {binlog.TypeYear}, "bit": {binlog.TypeBit},
		"date": {binlog.TypeDate, binlog.TypeNewDate}, "time": {binlog.TypeTime, binlog.TypeTime2}, "datetime": {binlog.TypeDateTime, binlog.TypeDateTime2},
		"timestamp": {binlog.TypeTimestamp, binlog.TypeTimestamp2}, "enum": {binlog.TypeEnum}, "set": {binlog.TypeSet},
	}[declared]
	if want == nil { // strings, BLOBs, and what is kept as one of them
		return typ >= binlog.TypeTinyBlob || typ == binlog.TypeVarchar || typ == binlog.TypeJSON || typ == binlog.TypeVector || typ == binlog.TypeBlobCompressed || typ == binlog.TypeVarcharCompressed
	}
	return slices.Contains(want, typ)
}
