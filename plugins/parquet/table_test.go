package parquet_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/parquet"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
)

// codec returns the codec of an Avro schema.
func codec(t *testing.T, text string) *schema.Codec {
	t.Helper()
	c, err := schema.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func create(payload map[string]any) record.Record {
	return record.Record{Operation: record.OperationCreate, Position: record.Position("p"),
		After: record.Structured(payload)}
}

const large = 64 << 20

var none parquet.Schemas

// files writes records to as many files as the table needs. It stops at the first refused record.
func files(
	t *testing.T, table *parquet.Table, schemas parquet.Schemas, records ...record.Record,
) (contents [][]byte, err error) {
	t.Helper()
	for len(records) > 0 && err == nil {
		file, n := table.NewFile(large), 0
		for more := true; more && n < len(records); {
			if more, err = file.Add(&records[n], schemas); more {
				n++
			}
		}
		if n == 0 {
			break
		}
		content, failed := file.Encode()
		if failed != nil {
			t.Fatal(failed)
		}
		contents, records = append(contents, content), records[n:]
	}
	return contents, err
}

// one writes records that fit one file, and reads them.
func one(
	t *testing.T, table *parquet.Table, schemas parquet.Schemas, records ...record.Record,
) (schema string, rows []map[string]any) {
	t.Helper()
	contents, err := files(t, table, schemas, records...)
	if err != nil || len(contents) != 1 {
		t.Fatalf("wrote %d files: %v", len(contents), err)
	}
	return read(t, contents[0])
}

// TestTypes writes a column for each Avro type, in the order of the schema.
func TestTypes(t *testing.T) {
	fields := []struct {
		avro, parquet string
		value, want   any
	}{
		{`"boolean"`, "boolean", true, true},
		{`"int"`, "int64 (INT(64,true))", int32(-7), int64(-7)},
		{`"long"`, "int64 (INT(64,true))", int64(math.MinInt64), int64(math.MinInt64)},
		{`"float"`, "double", float32(0.5), 0.5},
		{`"double"`, "double", math.Inf(1), math.Inf(1)},
		{`["null","long","double"]`, "double", int64(3), 3.0},
		{`"string"`, "binary (STRING)", "é,\x00", "é,\x00"},
		{`{"type":"enum","name":"e","symbols":["A","B"]}`, "binary (STRING)", "B", "B"},
		{`"bytes"`, "binary", []byte{0, 255}, []byte{0, 255}},
		{`{"type":"fixed","name":"f","size":2}`, "binary", []byte{1, 2}, []byte{1, 2}},
		{`{"type":"bytes","logicalType":"decimal","precision":38,"scale":10}`,
			"fixed_len_byte_array(16) (DECIMAL(38,10))", "-9999999999999999999999999999.9999999999",
			"-9999999999999999999999999999.9999999999"},
		{`{"type":"bytes","logicalType":"decimal","precision":39,"scale":1}`, "binary (STRING)",
			"99999999999999999999999999999999999999.9", "99999999999999999999999999999999999999.9"},
		{`{"type":"string","logicalType":"numeric","precision":5,"scale":2}`,
			"fixed_len_byte_array(16) (DECIMAL(5,2))", "-123.45", "-123.45"},
		{`{"type":"string","logicalType":"numeric","precision":3,"scale":5}`, "binary (STRING)", "0.00123", "0.00123"},
		{`{"type":"string","logicalType":"numeric"}`, "binary (STRING)", "1e5", "1e5"},
		{`{"type":"fixed","name":"u","size":16,"logicalType":"uuid"}`, "fixed_len_byte_array(16) (UUID)",
			"01020304-0506-0708-090a-0b0c0d0e0fff", "01020304-0506-0708-090a-0b0c0d0e0fff"},
		{`{"type":"fixed","name":"d","size":12,"logicalType":"duration"}`, "binary (STRING)", "P1M2DT3.004S",
			"P1M2DT3.004S"},
		{`{"type":"int","logicalType":"date"}`, "int32 (DATE)", day(1969, 12, 31), day(1969, 12, 31)},
		{`{"type":"int","logicalType":"time-millis"}`, "int64 (TIME(isAdjustedToUTC=false,unit=MICROS))",
			25 * time.Millisecond, 25 * time.Millisecond},
		{`{"type":"long","logicalType":"time-micros"}`, "int64 (TIME(isAdjustedToUTC=false,unit=MICROS))",
			24*time.Hour - time.Microsecond, 24*time.Hour - time.Microsecond},
		{`{"type":"long","logicalType":"timestamp-millis"}`, "int64 (TIMESTAMP(isAdjustedToUTC=true,unit=MICROS))",
			day(1, 1, 1), day(1, 1, 1)},
		{`{"type":"long","logicalType":"timestamp-micros"}`, "int64 (TIMESTAMP(isAdjustedToUTC=true,unit=MICROS))",
			time.UnixMicro(1_700_000_000_123_456), time.UnixMicro(1_700_000_000_123_456).UTC()},
		{`{"type":"long","logicalType":"timestamp-nanos"}`, "int64 (TIMESTAMP(isAdjustedToUTC=true,unit=NANOS))",
			time.Unix(1, 2), time.Unix(1, 2).UTC()},
		{`{"type":"long","logicalType":"local-timestamp-micros"}`,
			"int64 (TIMESTAMP(isAdjustedToUTC=false,unit=MICROS))", day(9999, 12, 31), day(9999, 12, 31)},
		{`{"type":"long","logicalType":"local-timestamp-nanos"}`,
			"int64 (TIMESTAMP(isAdjustedToUTC=false,unit=NANOS))", time.Unix(3, 4), time.Unix(3, 4).UTC()},
		{`{"type":"string","logicalType":"json"}`, "binary (JSON)", map[string]any{"a": []any{int64(1)}}, `{"a":[1]}`},
		{`["null",{"type":"long","logicalType":"timestamp-micros"},"string"]`,
			"int64 (TIMESTAMP(isAdjustedToUTC=true,unit=MICROS))", day(2026, 1, 2), day(2026, 1, 2)},
		{`"null"`, "<?> (NULL)", nil, nil},
		{`{"type":"record","name":"empty","fields":[]}`, "binary (JSON)", map[string]any{}, "{}"},
	}
	text, payload, want, nothing := "", map[string]any{}, map[string]any{}, map[string]any{}
	wantSchema := "message schema {\n"
	for i, f := range fields {
		name := fmt.Sprintf("c%d", len(fields)-i) // not in alphabetical order
		text += fmt.Sprintf(`,{"name":%q,"type":%s}`, name, f.avro)
		payload[name], want[name], nothing[name] = f.value, f.want, nil
		wantSchema += fmt.Sprintf("\toptional %s;\n", strings.Replace(f.parquet, " ", " "+name+" ", 1))
		if !strings.Contains(f.parquet, " ") {
			wantSchema = strings.TrimSuffix(wantSchema, ";\n") + " " + name + ";\n"
		}
	}
	schemas := parquet.Schemas{Payload: codec(t, `{"type":"record","name":"r","fields":[`+text[1:]+`]}`)}
	got, rows := one(t, parquet.NewTable(parquet.Columns{}), schemas, create(payload), create(nil),
		create(map[string]any{}))
	if got != wantSchema+"}" {
		t.Errorf("the schema is\n%s\nwant\n%s", got, wantSchema)
	}
	if fmt.Sprint(rows) != fmt.Sprint([]map[string]any{want, nothing, nothing}) ||
		!reflect.DeepEqual(rows[0], want) {
		t.Errorf("got  %v\nwant %v", rows, want)
	}
}

func day(year, month, day int) time.Time {
	return time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
}

// TestNested keeps apart null, empty and missing in lists, maps and records, and writes a recursive type as JSON.
func TestNested(t *testing.T) {
	schemas := parquet.Schemas{Payload: codec(t, `{"type":"record","name":"r","fields":[
		{"name":"lists","type":["null",{"type":"array","items":["null",{"type":"array","items":["null","long"]}]}]},
		{"name":"maps","type":["null",{"type":"map","values":["null",{"type":"record","name":"p","fields":[
			{"name":"x","type":["null","long"]},{"name":"tags","type":{"type":"array","items":"string"}}]}]}]},
		{"name":"next","type":["null","r"]}]}`)}
	list := func(items ...any) []any { return append([]any{}, items...) }
	payloads := []map[string]any{
		{"lists": nil, "maps": nil, "next": nil},
		{"lists": list(), "maps": map[string]any{}, "next": nil},
		{"lists": list(nil), "maps": map[string]any{"a": nil}, "next": map[string]any{"lists": nil}},
		{"lists": list(list(), nil, list(nil, int64(1), nil), list(int64(2), int64(3))),
			"maps": map[string]any{"b": map[string]any{"x": nil, "tags": list("s", "")},
				"a": map[string]any{"x": int64(5), "tags": list()}}, "next": nil},
	}
	var records []record.Record
	for _, p := range payloads {
		records = append(records, create(p))
	}
	text, rows := one(t, parquet.NewTable(parquet.Columns{}), schemas, records...)
	payloads[2]["next"] = `{"lists":null}`
	if !reflect.DeepEqual(rows, payloads) {
		t.Errorf("got  %v\nwant %v", rows, payloads)
	}
	const want = `message schema {
	optional group lists (LIST) {
		repeated group list {
			optional group element (LIST) {
				repeated group list {
					optional int64 element (INT(64,true));
				}
			}
		}
	}
	optional group maps (MAP) {
		repeated group key_value {
			required binary key (STRING);
			optional group value {
				optional int64 x (INT(64,true));
				optional group tags (LIST) {
					repeated group list {
						optional binary element (STRING);
					}
				}
			}
		}
	}
	optional binary next (JSON);
}`
	if text != want {
		t.Errorf("the schema is %s", text)
	}
}

// TestInference finds columns from the values of records, which later records widen, and which the table remembers.
func TestInference(t *testing.T) {
	table := parquet.NewTable(parquet.Columns{})
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	_, rows := one(t, table, none, create(map[string]any{"n": 1, "l": []any{}, "null": nil}),
		create(map[string]any{"s": "x", "l": []any{1, nil}, "o": map[string]any{}, "at": at, "big": uint64(1 << 63),
			"exact": json.Number("12345678901234567890.12"), "a,b.c": map[string]any{"d": true}}))
	want := []map[string]any{
		{"n": int64(1), "l": []any{}, "null": nil, "s": nil, "o": nil, "at": nil, "big": nil, "exact": nil, "a,b.c": nil},
		{"n": nil, "l": []any{int64(1), nil}, "null": nil, "s": "x", "o": "{}", "at": at, "big": "9223372036854775808",
			"exact": "12345678901234567890.12", "a,b.c": map[string]any{"d": true}},
	}
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("got  %v\nwant %v", rows, want)
	}
	text, rows := one(t, table, none, create(map[string]any{"n": 2.0, "o": map[string]any{"x": []byte{}}}))
	if rows[0]["n"] != int64(2) || fmt.Sprint(rows[0]["o"]) != "map[x:[]]" ||
		!strings.Contains(text, "binary s (STRING)") {
		t.Errorf("the next file has %v and the schema %s", rows, text)
	}
}

// TestConversion begins another file for a column whose type becomes wider.
func TestConversion(t *testing.T) {
	table := parquet.NewTable(parquet.Columns{})
	precise := time.Unix(0, 1)
	records := []record.Record{create(map[string]any{"n": math.MaxInt64, "t": day(2026, 1, 2), "d": time.Second}),
		create(map[string]any{"n": 1.5}), create(map[string]any{"n": 1 << 53, "t": precise}),
		create(map[string]any{"t": day(2026, 1, 2), "d": time.Nanosecond})}
	table.Commit()
	for range 2 { // the second time after a rollback
		contents, err := files(t, table, none, records...)
		if err != nil || len(contents) != 4 {
			t.Fatalf("wrote %d files: %v", len(contents), err)
		}
		var all []map[string]any
		for _, content := range contents {
			_, rows := read(t, content)
			all = append(all, rows...)
		}
		want := []map[string]any{{"n": int64(math.MaxInt64), "t": day(2026, 1, 2), "d": time.Second},
			{"n": 1.5, "t": nil, "d": nil}, {"n": float64(1 << 53), "t": precise.UTC(), "d": nil},
			{"n": nil, "t": day(2026, 1, 2), "d": time.Nanosecond}}
		if !reflect.DeepEqual(all, want) {
			t.Errorf("got  %v\nwant %v", all, want)
		}
		table.Rollback()
	}
}

// TestRefused refuses a record whose values do not fit, with the column and the kind of the value, and leaves the
// columns as they are.
func TestRefused(t *testing.T) {
	first := map[string]any{"n": 1, "f": 1.5, "s": "x", "t": day(2026, 1, 2), "l": []any{map[string]any{"b": true}},
		"y": []byte("y"), "far": day(1, 1, 1), "d": time.Second}
	deep := any("x")
	for range 40 {
		deep = []any{deep}
	}
	wide := map[string]any{}
	for i := range 5000 {
		wide[fmt.Sprint(i)] = true
	}
	for name, c := range map[string]struct {
		payload map[string]any
		want    string
	}{
		"text":       {map[string]any{"n": "x"}, "column n: its type is INT64, and the value is text; convert"},
		"number":     {map[string]any{"s": 1}, "column s: its type is text, and the value is an integer;"},
		"inexact":    {map[string]any{"f": 1<<53 + 1}, "column f: its type is DOUBLE, and the value is an integer that"},
		"mixed list": {map[string]any{"new": []any{1<<53 + 1, 0.5}}, "column new[]: its type is DOUBLE"},
		"long number": {map[string]any{"n": json.Number("12345678901234567890.12")},
			"column n: its type is INT64, and the value is a number that an integer of 64 bits cannot represent;"},
		"nested":    {map[string]any{"l": []any{map[string]any{"b": nil}, map[string]any{"b": 1}}}, "column l[].b: its"},
		"object":    {map[string]any{"l": map[string]any{}}, "column l: its type is LIST, and the value is an object"},
		"bytes":     {map[string]any{"s": []byte("x")}, "column s: its type is text, and the value is bytes"},
		"no UTF-8":  {map[string]any{"s": "\xff"}, "column s: its type is text, and the value is text that is not UTF-8"},
		"infinity":  {map[string]any{"t": "infinity"}, "column t: its type is TIMESTAMP, and the value is text"},
		"nanos":     {map[string]any{"far": time.Unix(0, 1), "t": time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC)}, "column t"},
		"day":       {map[string]any{"d": 25 * time.Hour}, "column d: its type is TIME, and the value is a duration that"},
		"name":      {map[string]any{"\xff": 1}, "cannot be the name of a column"},
		"no name":   {map[string]any{"": 1}, "cannot be the name of a column"},
		"deep":      {map[string]any{"deep": deep}, "nested deeper than 32 levels"},
		"wide":      {wide, "more than 4096 columns"},
		"no value":  {map[string]any{"new": func() {}}, "column new"},
		"no fields": {nil, ""},
	} {
		table := parquet.NewTable(parquet.Columns{})
		before, _ := one(t, table, none, create(first))
		contents, err := files(t, table, none, create(first), create(c.payload), create(first))
		if c.want == "" {
			if err != nil || len(contents) != 1 {
				t.Errorf("%s: wrote %d files: %v", name, len(contents), err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "parquet.columns") {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if after, rows := read(t, contents[0]); len(rows) != 1 || after != before {
			t.Errorf("%s: there are %d rows of %s", name, len(rows), after)
		}
	}
	schemas := parquet.Schemas{Payload: codec(t, `{"type":"record","name":"r","fields":[
		{"name":"day","type":{"type":"int","logicalType":"date"}},
		{"name":"d","type":{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}},
		{"name":"u","type":{"type":"fixed","name":"u","size":16,"logicalType":"uuid"}}]}`)}
	for _, c := range []struct {
		name  string
		value any
		want  string
	}{
		{"day", time.Unix(1, 0), "column day: its type is DATE, and the value is a time with a time of day"},
		{"d", "1.234", "column d: its type is DECIMAL(4,2), and the value is text that is not a number with at most 2"},
		{"d", "123", "that has more than 4 digits"}, {"d", "1e999999999", "that is not a number"},
		{"d", true, "column d: its type is DECIMAL(4,2), and the value is a boolean"},
		{"d", "1/3", "that is not a number"}, {"d", math.NaN(), "that is not a number"},
		{"u", "no", "that is not a UUID"},
	} {
		_, err := files(t, parquet.NewTable(parquet.Columns{}), schemas, create(map[string]any{c.name: c.value}))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.value, err, c.want)
		}
	}
}

// TestDeepSchema writes the part of a schema that is nested deeper than columns can be as JSON.
func TestDeepSchema(t *testing.T) {
	avro, payload := `"long"`, any(int64(7))
	for i := range 40 {
		avro = fmt.Sprintf(`{"type":"record","name":"r%d","fields":[{"name":"f","type":%s}]}`, i, avro)
		payload = map[string]any{"f": payload}
	}
	table, schemas := parquet.NewTable(parquet.Columns{}), parquet.Schemas{Payload: codec(t, avro)}
	text, rows := one(t, table, schemas, create(payload.(map[string]any)))
	if groups := strings.Count(text, "group f"); groups != 32 || !strings.Contains(text, "binary f (JSON)") {
		t.Errorf("got %d levels: %s", groups, text)
	}
	if got := fmt.Sprint(rows); !strings.Contains(got, `{"f":{"f":`) || !strings.Contains(got, "7") {
		t.Errorf("got %s", got)
	}
}

// TestRecordColumns adds columns for parts of the record, and writes deletes by their former payload or key.
func TestRecordColumns(t *testing.T) {
	all := parquet.Columns{Operation: true, Key: true, Position: true, Metadata: true}
	schemas := parquet.Schemas{Key: codec(t, `{"type":"record","name":"k","fields":[{"name":"id","type":"long"}]}`)}
	key := record.Structured(map[string]any{"id": 7})
	created := create(map[string]any{"id": 7, "x": "a"})
	created.Key, created.Metadata = key, record.NewMetadata(map[string]string{"m": "1", "\xff": "\xfe"})
	removed := record.Record{Operation: record.OperationDelete, Key: key,
		Before: record.Structured(map[string]any{"id": 7, "x": "b"})}
	bare := record.Record{Operation: record.OperationDelete, Key: key}
	_, rows := one(t, parquet.NewTable(all), schemas, created, removed, bare)
	row := func(operation string, position []byte, metadata map[string]any, more ...any) map[string]any {
		return map[string]any{"conduit_operation": operation, "conduit_key": map[string]any{"id": int64(7)},
			"conduit_position": position, "conduit_metadata": metadata, "id": more[0], "x": more[1]}
	}
	want := []map[string]any{
		row("create", []byte("p"), map[string]any{"m": "1", `\xff`: `\xfe`}, int64(7), "a"),
		row("delete", []byte{}, map[string]any{}, int64(7), "b"), row("delete", []byte{}, map[string]any{}, int64(7), nil),
	}
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("got  %v\nwant %v", rows, want)
	}
	_, rows = one(t, parquet.NewTable(parquet.Columns{Key: true}), none, record.Record{Key: record.Raw([]byte("k")),
		Operation: record.OperationCreate})
	if fmt.Sprint(rows) != "[map[conduit_key:[107]]]" {
		t.Errorf("a raw key is %v", rows)
	}
	for name, c := range map[string]struct {
		columns parquet.Columns
		record  record.Record
		want    string
	}{
		"raw":          {all, record.Record{After: record.Raw([]byte("{}"))}, "raw data"},
		"no operation": {parquet.Columns{}, removed, "add operation to parquet.recordColumns"},
		"no key": {parquet.Columns{Operation: true}, record.Record{Operation: record.OperationDelete,
			Key: record.Raw([]byte("k"))}, "add key to parquet.recordColumns"},
		"taken":     {all, create(map[string]any{"conduit_key": 1}), "remove key from parquet.recordColumns"},
		"no fields": {parquet.Columns{}, create(nil), "without fields"},
	} {
		if _, err := files(t, parquet.NewTable(c.columns), none, c.record); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestFull begins another file when the records or the cells of a file are too many.
func TestFull(t *testing.T) {
	table := parquet.NewTable(parquet.Columns{})
	file := table.NewFile(1000)
	r := create(map[string]any{"x": strings.Repeat("x", 600)})
	for i, want := range []bool{true, false} {
		if got, err := file.Add(&r, none); got != want || err != nil {
			t.Errorf("added record %d: %t, %v", i, got, err)
		}
	}
	wide := map[string]any{}
	for i := range 4096 {
		wide[fmt.Sprint(i)] = nil
	}
	table = parquet.NewTable(parquet.Columns{})
	file, r = table.NewFile(math.MaxInt), create(wide)
	n := 0
	for more := true; more && n < 2000; n++ {
		var err error
		if more, err = file.Add(&r, none); err != nil {
			t.Fatal(err)
		}
		r = create(map[string]any{"1": true})
	}
	if n != 1025 {
		t.Errorf("a file has %d records of 4096 columns", n-1)
	}
}

// TestSchemaChange widens the columns for another schema. A type that is not wider begins another file.
func TestSchemaChange(t *testing.T) {
	table := parquet.NewTable(parquet.Columns{})
	avro := func(fields string) parquet.Schemas {
		return parquet.Schemas{Payload: codec(t, `{"type":"record","name":"r","fields":[`+fields+`]}`)}
	}
	decimal := func(name string, precision, scale int) string {
		return fmt.Sprintf(`{"name":%q,"type":{"type":"bytes","logicalType":"decimal","precision":%d,"scale":%d}}`,
			name, precision, scale)
	}
	file := table.NewFile(large)
	var schemas []string
	var all []map[string]any
	end := func() {
		content, err := file.Encode()
		if err != nil {
			t.Fatal(err)
		}
		text, rows := read(t, content)
		schemas, all, file = append(schemas, text), append(all, rows...), table.NewFile(large)
	}
	for i, step := range []struct {
		schemas parquet.Schemas
		payload map[string]any
		another bool
	}{
		{avro(`{"name":"a","type":"long"},` + decimal("d", 4, 2)), map[string]any{"a": 1, "d": "1.5"}, false},
		{avro(`{"name":"b","type":["null","string"]},{"name":"a","type":"long"}`), map[string]any{"a": 2, "b": "x"}, false},
		{avro(`{"name":"a","type":"string"}`), map[string]any{"a": "3"}, true},
		{avro(decimal("d", 9, 3)), map[string]any{"d": "123456.789"}, true},
		{avro(decimal("d", 5, 4)), map[string]any{"d": "123456.7891"}, true},
		{avro(decimal("d", 38, 0)), map[string]any{"d": strings.Repeat("9", 38)}, true},
		{avro(`{"name":"a","type":"long"}`), map[string]any{"a": 1<<53 + 1}, true},
		{avro(`{"name":"a","type":"double"}`), map[string]any{"a": 0.5}, true},
		{avro(`{"name":"a","type":"long"}`), map[string]any{"a": 6}, false},
	} {
		r := create(step.payload)
		added, err := file.Add(&r, step.schemas)
		if added == step.another || err != nil {
			t.Fatalf("step %d: added %t, %v", i, added, err)
		}
		if step.another {
			end()
			if added, err = file.Add(&r, step.schemas); !added || err != nil {
				t.Fatalf("step %d: added %t, %v", i, added, err)
			}
		}
	}
	end()
	want := []map[string]any{{"a": int64(1), "d": "1.50", "b": nil}, {"a": int64(2), "d": nil, "b": "x"},
		{"a": "3", "d": nil, "b": nil}, {"a": nil, "d": "123456.789", "b": nil},
		{"a": nil, "d": "123456.7891", "b": nil},
		{"a": nil, "d": strings.Repeat("9", 38), "b": nil}, {"a": int64(1<<53 + 1), "d": nil, "b": nil},
		{"a": 0.5, "d": nil, "b": nil}, {"a": 6.0, "d": nil, "b": nil}}
	if !reflect.DeepEqual(all, want) {
		t.Errorf("got  %v\nwant %v", all, want)
	}
	if !strings.Contains(schemas[2], "DECIMAL(9,3)") || !strings.Contains(schemas[3], "DECIMAL(10,4)") ||
		!strings.Contains(schemas[4], "binary d (STRING)") {
		t.Errorf("the schemas are %s", schemas)
	}
}
