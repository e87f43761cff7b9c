package mysql

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql/binlog"
)

// Complete adds names, signs, character sets and conversions to the columns of a table of the log, and returns the
// indexes of the primary key columns. maria reports whether MariaDB wrote the log.
func (t *Table) Complete(
	ctx context.Context, logged *binlog.Table, charsets *Charsets, maria bool,
) (keys []int, err error) {
	if !logged.Named && len(t.Columns) != len(logged.Columns) {
		return nil, fmt.Errorf("cannot read a change of table %s: the change has %d columns and the table has %d, "+
			"because the table was altered later, and the binary log has no column names. A new snapshot is "+
			"needed: delete the pipeline and declare it again. To prevent this error, run SET GLOBAL "+
			"binlog_row_metadata = 'FULL'", t.ID(), len(logged.Columns),
			len(t.Columns))
	}
	for i := range logged.Columns {
		c := &logged.Columns[i]
		known := Column{}
		if logged.Named {
			if found := t.Column(c.Name); found != nil {
				known = *found
				if !maria && fits(c.Type, known.Type) { // MySQL does not document which columns have a sign in its log
					c.Unsigned = known.Unsigned
				}
			}
		} else {
			known = t.Columns[i]
			if !fits(c.Type, known.Type) {
				return nil, fmt.Errorf("cannot read a change of table %s: column %d of the change is not of type %s "+
					"like column %s of the table, because the table was altered later, and the binary log has no "+
					"column names. A new snapshot is needed: delete the pipeline and declare it again. To prevent "+
					"this error, run SET GLOBAL binlog_row_metadata = 'FULL'", t.ID(), i+1, known.Type, known.Name)
			}
			c.Name, c.Unsigned, c.Values = known.Name, known.Unsigned, known.Values
		}
		if err := charsets.complete(ctx, c, &known, logged.Named); err != nil {
			return nil, fmt.Errorf("cannot read a change of table %s, column %s: %w", t.ID(), c.Name, err)
		}
	}
	if logged.Named {
		return slices.DeleteFunc(slices.Clone(logged.Key), func(k int) bool {
				return t.isOfSystem(logged.Columns[k].Name)
			}),
			nil
	}
	for _, k := range t.Key {
		keys = append(keys, slices.IndexFunc(logged.Columns, func(c binlog.Column) bool { return c.Name == k }))
	}
	return keys, nil
}

// End returns the index of the row end column of a table with system versioning, and -1 for other tables. The columns
// of a table that no longer exists are unknown, but its hidden columns have names.
func (t *Table) End(logged *binlog.Table) int {
	end := t.rowEnd
	if n := len(logged.Columns); t.kind == "" && n > 2 && logged.Columns[n-2].Name == hiddenStart &&
		logged.Columns[n-1].Name == hiddenEnd {
		end = hiddenEnd
	}
	if end == "" {
		return -1
	}
	return slices.IndexFunc(logged.Columns, func(c binlog.Column) bool { return c.Name == end })
}

// IsCurrent reports whether a value of the column End belongs to a current row.
func IsCurrent(end any) bool {
	switch end := end.(type) {
	case time.Time:
		return end.Unix() == math.MaxInt32 || end.Unix() == math.MaxUint32 // since MariaDB 11.5
	case uint64:
		return end == math.MaxUint64
	case int64:
		return end == -1
	}
	return end == binlog.Absent // not logged, because the log has changed columns only
}

// complete fills in how to decode the bytes of a column.
func (c *Charsets) complete(ctx context.Context, column *binlog.Column, known *Column, named bool) (err error) {
	column.Skip = known.Generated
	if (column.Type == binlog.TypeTimestamp || column.Type == binlog.TypeDateTime || column.Type == binlog.TypeTime) &&
		known.Precision > 0 {
		return fmt.Errorf("its fractional seconds are in the format of MariaDB before 10.1.2: run ALTER TABLE … " +
			"FORCE with mysql56_temporal_format = ON")
	}
	charset := known.Charset
	// The log marks compressed columns as binary.
	if compressed := column.Type == binlog.TypeBlobCompressed || column.Type == binlog.TypeVarcharCompressed; named &&
		column.Charset != 0 && !compressed {
		charset = c.ofID[column.Charset]
	}
	if column.Convert = known.ofBytes(); column.Convert != nil {
		return nil
	}
	column.Binary = charset == "binary" || known.binary() || !named && charset == "" && known.Type != "json"
	if column.Binary {
		return nil
	}
	convert, err := c.converter(ctx, charset)
	if err != nil {
		return err
	}
	if column.Type != binlog.TypeEnum && column.Type != binlog.TypeSet {
		column.Convert = convert
		return nil
	}
	if convert != nil && named {
		for i, v := range column.Values {
			text, err := convert([]byte(v))
			if err != nil {
				return err
			}
			column.Values[i], _ = text.(string)
		}
		column.Charset = -1 // UTF-8 from here on
	}
	return nil
}

// fits reports whether a column of the log can be the given column of the catalogue.
func fits(typ byte, declared string) bool {
	want := map[string][]byte{
		"tinyint": {binlog.TypeTiny}, "smallint": {binlog.TypeShort}, "mediumint": {binlog.TypeInt24},
		"int": {binlog.TypeLong}, "bigint": {binlog.TypeLongLong},
		"float": {binlog.TypeFloat}, "double": {binlog.TypeDouble}, "decimal": {binlog.TypeNewDecimal},
		"year": {binlog.TypeYear}, "bit": {binlog.TypeBit},
		"date": {binlog.TypeDate, binlog.TypeNewDate}, "time": {binlog.TypeTime, binlog.TypeTime2},
		"datetime":  {binlog.TypeDateTime, binlog.TypeDateTime2},
		"timestamp": {binlog.TypeTimestamp, binlog.TypeTimestamp2}, "enum": {binlog.TypeEnum}, "set": {binlog.TypeSet},
	}[declared]
	if want == nil { // strings, BLOBs, and types stored like these
		return typ >= binlog.TypeTinyBlob || typ == binlog.TypeVarchar || typ == binlog.TypeJSON ||
			typ == binlog.TypeVector || typ == binlog.TypeBlobCompressed || typ == binlog.TypeVarcharCompressed
	}
	return slices.Contains(want, typ)
}
