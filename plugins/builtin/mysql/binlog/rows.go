package binlog

import "fmt"

// Kind is the kind of a change of a row.
type Kind int

// Kinds of changes.
const (
	Insert Kind = iota
	Update
	Delete
)

// Absent is the value of a column that the log omits.
var Absent = absent{}

type absent struct{}

// Rows holds row changes in one table.
type Rows struct {
	Table          *Table
	Kind           Kind
	first, second  []byte // bitmaps of the logged columns; for Update, before and after the change
	width          int
	data           reader
	nfirst, nsecnd int
}

func (d *Decoder) rows(r *reader, typ byte) (any, error) {
	compressed := typ >= typeWriteCompressed
	v2 := typ >= typeWriteV2 && typ <= typeDeleteV2 || typ >= typeWriteCompressed+3
	id := r.little(6)
	r.take(2)
	if v2 {
		r.take(int(r.uint16()) - 2)
	}
	rows := &Rows{Table: d.tables[id], width: r.length()}
	if rows.Table == nil && !r.failed {
		return nil, fmt.Errorf("no table map describes table %d: %w", id, ErrCorrupt)
	}
	rows.Kind = Kind(typ-typeWriteV1) % 3
	switch {
	case compressed:
		rows.Kind = Kind(typ-typeWriteCompressed) % 3
	case v2:
		rows.Kind = Kind(typ - typeWriteV2)
	}
	rows.first = r.take((rows.width + 7) / 8)
	rows.second = rows.first
	if rows.Kind == Update {
		rows.second = r.take((rows.width + 7) / 8)
	}
	if r.failed || rows.width != len(rows.Table.Columns) {
		return nil, ErrCorrupt
	}
	rows.nfirst, rows.nsecnd = ones(rows.first, rows.width), ones(rows.second, rows.width)
	if rows.nfirst == 0 && rows.nsecnd == 0 {
		return nil, ErrCorrupt // rows without columns would never end
	}
	rows.data = reader{data: r.rest()}
	if compressed {
		var err error
		if rows.data.data, err = inflate(rows.data.data); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func ones(bitmap []byte, width int) (n int) {
	for i := range width {
		n += int(bitmap[i/8] >> (i % 8) & 1)
	}
	return n
}

// More reports whether Next has another row.
func (rows *Rows) More() bool { return len(rows.data.data) > 0 }

// Next decodes the next row: its values before and after the change. An Insert has no before and a Delete no after.
// before and after have the length of Table.Columns. NULL is nil, and a column that the log omits is Absent. With skip,
// Next moves past the row without decoding it.
func (rows *Rows) Next(before, after []any, skip bool) error {
	if rows.Kind != Insert {
		if err := rows.image(rows.first, rows.nfirst, before, skip); err != nil {
			return err
		}
	}
	if rows.Kind != Delete {
		return rows.image(rows.second, rows.nsecnd, after, skip)
	}
	return nil
}

func (rows *Rows) image(present []byte, count int, into []any, skip bool) error {
	r := &rows.data
	nulls := r.take((count + 7) / 8)
	if r.failed {
		return fmt.Errorf("cannot read a row of table %s.%s: %w", rows.Table.Schema, rows.Table.Name, ErrCorrupt)
	}
	r.made = 0
	at := 0
	for i := range rows.Table.Columns {
		if present[i/8]>>(i%8)&1 == 0 {
			if !skip {
				into[i] = Absent
			}
			continue
		}
		null := nulls[at/8]>>(at%8)&1 != 0
		at++
		if null {
			if !skip {
				into[i] = nil
			}
			continue
		}
		c := &rows.Table.Columns[i]
		v, err := c.value(r, skip || c.Skip)
		switch r.made += bytesOf(v); {
		case err != nil:
		case r.failed:
			err = ErrCorrupt
		default:
			err = bounded(uint64(r.made))
		}
		if err != nil {
			return fmt.Errorf("cannot read column %d (%s) of table %s.%s: %w", i+1, c.Name, rows.Table.Schema,
				rows.Table.Name, err)
		}
		if !skip {
			into[i] = v
		}
	}
	return nil
}

// bytesOf returns the size of a value in bytes, if its type has no fixed size.
func bytesOf(v any) int64 {
	switch v := v.(type) {
	case string:
		return int64(len(v))
	case []byte:
		return int64(len(v))
	}
	return 0
}
