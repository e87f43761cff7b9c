package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/spec/texts"
)

// schemas registers Avro schemas of tables. A nil *schemas registers none.
type schemas struct{ registry schema.Registry }

func newSchemas(registry schema.Registry) *schemas {
	if registry == nil {
		return nil
	}
	return &schemas{registry}
}

// avroName matches valid Avro field names.
var avroName = texts.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)

// attach adds the schemas of a table's key and payload to m. absent has an x at each column that the payload omits. The
// schema omits the column, too, because an omitted column is not the same as NULL. A table whose name is invalid in
// Avro has no schemas.
func (s *schemas) attach(
	ctx context.Context, m *record.Metadata, table string, columns []pg.Column, keys []int, absent string,
) error {
	if s == nil || !avroName().MatchString(table) || slices.ContainsFunc(columns, func(c pg.Column) bool {
		return !avroName().MatchString(c.Name)
	}) {
		return nil
	}
	var payload, key []pg.Column
	for i, c := range columns {
		if absent == "" || absent[i] != 'x' {
			payload = append(payload, c)
		}
	}
	for _, k := range keys {
		key = append(key, columns[k])
	}
	if err := s.register(ctx, m, table+"_payload", payload, record.KeyPayloadSchemaSubject,
		record.KeyPayloadSchemaVersion); err != nil {
		return err
	}
	if len(key) == 0 {
		return nil
	}
	return s.register(ctx, m, table+"_key", key, record.KeyKeySchemaSubject, record.KeyKeySchemaVersion)
}

func (s *schemas) register(
	ctx context.Context, m *record.Metadata, subject string, columns []pg.Column, subjectKey, versionKey string,
) error {
	found, err := s.registry.Create(ctx, subject, schema.TypeAvro, avroOf(subject, columns))
	if err != nil {
		return fmt.Errorf("cannot register schema %s: %w", subject, err)
	}
	m.Set(subjectKey, found.Subject)
	m.Set(versionKey, strconv.Itoa(found.Version))
	return nil
}

// avroOf returns the schema of rows with these columns. A field that is missing in a row is null.
func avroOf(name string, columns []pg.Column) string {
	type field struct {
		Name    string `json:"name"`
		Type    []any  `json:"type"`
		Default any    `json:"default"`
	}
	all := struct {
		Type   string  `json:"type"`
		Name   string  `json:"name"`
		Fields []field `json:"fields"`
	}{Type: "record", Name: name, Fields: []field{}}
	for _, c := range columns {
		all.Fields = append(all.Fields, field{Name: c.Name, Type: append([]any{"null"}, avroTypes(c)...)})
	}
	text, _ := json.Marshal(all) // cannot fail
	return string(text)
}

// avroTypes returns the Avro types of the values that decode returns for a column.
func avroTypes(c pg.Column) []any {
	switch c.OID {
	case pg.OIDBool:
		return []any{"boolean"}
	case pg.OIDInt2, pg.OIDInt4:
		return []any{"int"}
	case pg.OIDInt8, pg.OIDOID:
		return []any{"long"}
	case pg.OIDFloat4:
		return []any{"float"}
	case pg.OIDFloat8:
		return []any{"double"}
	case pg.OIDBytea:
		return []any{"bytes"}
	case pg.OIDNumeric: // text for other readers
		t := map[string]any{"type": "string", "logicalType": "numeric"}
		var precision, scale int
		if _, err := fmt.Sscanf(c.TypeName, "numeric(%d,%d)", &precision, &scale); err == nil && scale >= 0 {
			t["precision"], t["scale"] = precision, scale
		}
		return []any{t}
	case pg.OIDJSON, pg.OIDJSONB: // text for other readers
		return []any{logical("string", "json")}
	case pg.OIDDate: // text for infinity
		return []any{logical("int", "date"), "string"}
	case pg.OIDTimestamp:
		return []any{logical("long", "local-timestamp-micros"), "string"}
	case pg.OIDTimestamptz:
		return []any{logical("long", "timestamp-micros"), "string"}
	}
	return []any{"string"}
}

func logical(typ, name string) map[string]any {
	return map[string]any{"type": typ, "logicalType": name}
}
