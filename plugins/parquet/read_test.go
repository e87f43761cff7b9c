package parquet_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"
	"testing"
	"time"

	library "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// read returns the schema and the rows of a file. It assembles rows from the values and levels of the columns, without
// the code that writes them. Times are time.Time or time.Duration, decimals and UUIDs are text.
func read(t *testing.T, content []byte) (schema string, rows []map[string]any) {
	t.Helper()
	file, err := library.OpenFile(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range file.RowGroups() {
		reader := group.Rows()
		buffer := make([]library.Row, 10)
		for {
			n, err := reader.ReadRows(buffer)
			for _, row := range buffer[:n] {
				a := assembler{columns: make([][]library.Value, len(file.Schema().Columns()))}
				for _, v := range row {
					a.columns[v.Column()] = append(a.columns[v.Column()], v.Clone())
				}
				m := map[string]any{}
				for _, f := range file.Root().Columns() {
					m[f.Name()] = a.value(f, 0, 0)
				}
				rows = append(rows, m)
			}
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		_ = reader.Close()
	}
	return file.Schema().String(), rows
}

// assembler makes the values of a row.
type assembler struct{ columns [][]library.Value }

func leavesOf(c *library.Column) (all []int) {
	if c.Leaf() {
		return []int{c.Index()}
	}
	for _, child := range c.Columns() {
		all = append(all, leavesOf(child)...)
	}
	return all
}

// skip removes the next value of each column below c.
func (a *assembler) skip(c *library.Column) {
	for _, i := range leavesOf(c) {
		a.columns[i] = a.columns[i][1:]
	}
}

// value returns the next value of c, which is at a definition and a repetition level.
func (a *assembler) value(c *library.Column, definition, repetition int) any {
	first := leavesOf(c)[0]
	if c.Optional() {
		definition++
		if a.columns[first][0].DefinitionLevel() < definition {
			a.skip(c)
			return nil
		}
	}
	if c.Leaf() {
		v := a.columns[first][0]
		a.columns[first] = a.columns[first][1:]
		return leafValue(c.Type(), v)
	}
	logical := c.Type().LogicalType()
	if logical == nil {
		m := map[string]any{}
		for _, f := range c.Columns() {
			m[f.Name()] = a.value(f, definition, repetition)
		}
		return m
	}
	inner := c.Columns()[0]
	_, isMap := logical.Value.(*format.MapType)
	list, m := []any{}, map[string]any{}
	if a.columns[first][0].DefinitionLevel() == definition {
		a.skip(c)
	} else {
		for more := true; more; more = len(a.columns[first]) > 0 && a.columns[first][0].RepetitionLevel() > repetition {
			if isMap {
				key := a.value(inner.Columns()[0], definition+1, repetition+1)
				m[key.(string)] = a.value(inner.Columns()[1], definition+1, repetition+1)
			} else {
				list = append(list, a.value(inner.Columns()[0], definition+1, repetition+1))
			}
		}
	}
	if isMap {
		return m
	}
	return list
}

func leafValue(typ library.Type, v library.Value) any {
	var logical any
	if l := typ.LogicalType(); l != nil {
		logical = l.Value
	}
	switch l := logical.(type) {
	case *format.StringType, *format.JsonType:
		return string(v.ByteArray())
	case *format.UUIDType:
		h := hex.EncodeToString(v.ByteArray())
		return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
	case *format.DateType:
		return time.Unix(int64(v.Int32())*86400, 0).UTC()
	case *format.TimestampType:
		if strings.Contains(l.String(), "NANOS") {
			return time.Unix(0, v.Int64()).UTC()
		}
		return time.UnixMicro(v.Int64()).UTC()
	case *format.TimeType:
		if strings.Contains(l.String(), "NANOS") {
			return time.Duration(v.Int64())
		}
		return time.Duration(v.Int64()) * time.Microsecond
	case *format.DecimalType:
		n := new(big.Int).SetBytes(v.ByteArray())
		if v.ByteArray()[0]&0x80 != 0 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), 128))
		}
		return new(big.Rat).SetFrac(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(l.Scale)), nil)).
			FloatString(int(l.Scale))
	}
	switch v.Kind() {
	case library.Boolean:
		return v.Boolean()
	case library.Int64:
		return v.Int64()
	case library.Double:
		return v.Double()
	case library.ByteArray:
		return append([]byte{}, v.ByteArray()...)
	}
	panic(fmt.Sprintf("no value of %v is expected", typ))
}
