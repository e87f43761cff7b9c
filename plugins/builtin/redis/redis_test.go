package redis_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/redis"
	"github.com/conduit-agent/conduit/plugins/record"
)

func TestSettings(t *testing.T) {
	for text, settings := range map[string]map[string]string{
		"must be redis://":          {"url": "http://x", "key": "a"},
		"set auth.username":         {"url": "redis://a:b@x", "key": "a"},
		"number of a database":      {"url": "redis://x/y", "key": "a"},
		"must be one key":           {"url": "redis://x", "key": "a,b"},
		`"processing": needs`:       {"url": "redis://x", "key": "a", "processing": "b"},
		"must differ from key":      {"url": "redis://x", "key": "a", "type": "list", "processing": "a"},
		`"field": needs type strea`: {"url": "redis://x", "key": "a", "type": "list", "field": "a"},
	} {
		s := &redis.Source{}
		if err := s.Configure(t.Context(), s.Parameters().ApplyDefaults(settings)); err == nil ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
	for text, settings := range map[string]map[string]string{
		`"value": needs type string`:          {"type": "hash", "value": "a"},
		`"fields": needs type hash`:           {"type": "string", "fields.a": "a"},
		`"expire": needs type string or hash`: {"type": "delete", "expire": "1h"},
		`"expire": "soon" is no time to live`: {"type": "hash", "expire": "soon"},
		`"expire": "1us" is no time to live`:  {"type": "hash", "expire": "1us"},
		`"value": cannot parse`:               {"type": "string", "value": "{{"},
		`"fields.a": cannot parse`:            {"type": "hash", "fields.a": "{{"},
	} {
		d := &redis.Destination{}
		settings["url"], settings["key"] = "redis://x", "a"
		if err := d.Configure(t.Context(), d.Parameters().ApplyDefaults(settings)); err == nil ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
	for text, more := range map[string]string{`"positionKey": needs`: "positionKey", `"maxLength": needs`: "maxLength",
		`"key"`: "key"} {
		d := &redis.Destination{}
		settings := map[string]string{"url": "redis://x", "key": "a", "type": "pubsub", more: "5"}
		if more == "key" {
			settings["key"] = "{{ .Nothing"
		}
		if err := d.Configure(t.Context(), d.Parameters().ApplyDefaults(settings)); err == nil ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
}

// TestKeyedElements converts records to the commands of the script for their keys.
func TestKeyedElements(t *testing.T) {
	object := func(op record.Operation, after map[string]any) record.Record {
		r := record.Record{Position: record.Position("1"), Operation: op,
			Key: record.Structured(map[string]any{"id": 7})}
		if after != nil {
			r.After = record.Structured(after)
		}
		return r
	}
	create := object(record.OperationCreate, map[string]any{"b": 1.5, "a": "x", "c": nil, "d": []any{int64(1)},
		"e": []byte{0xff}, "ttl": "90s"})
	for _, c := range []struct {
		name     string
		settings map[string]string
		record   record.Record
		want     string
	}{
		{"value", map[string]string{"type": "string", "value": "{{ .Payload.After.a }}"}, create, "c:7 set 0 x"},
		{"record", map[string]string{"type": "string"}, object(record.OperationCreate, map[string]any{}),
			`c:7 set 0 {"position":"MQ==","operation":"create","metadata":null,"key":{"id":7},"payload":` +
				`{"before":null,"after":{}}}`},
		{"hash", map[string]string{"type": "hash"}, create, "c:7 replace 0 a x b 1.5 d [1] e \xff ttl 90s"},
		{"some fields", map[string]string{"type": "hash", "fields.z": "{{ .Payload.After.a }}!", "fields.y": "1"},
			create, "c:7 merge 0 y 1 z x!"},
		{"expires", map[string]string{"type": "hash", "fields.y": "1", "expire": "1m"}, create,
			"c:7 merge 60000 y 1"},
		{"expires by a field", map[string]string{"type": "hash", "fields.y": "1", "expire": "{{ .Payload.After.ttl }}"},
			create, "c:7 merge 90000 y 1"},
		{"never expires", map[string]string{"type": "hash", "fields.y": "1",
			"expire": `{{ if eq .Payload.After.a "y" }}1m{{ end }}`}, create, "c:7 merge 0 y 1"},
		{"bad time", map[string]string{"type": "hash", "fields.y": "1", "expire": "{{ .Payload.After.a }}"}, create,
			`cannot make the time to live: "x" is no time to live`},
		{"missing field", map[string]string{"type": "string", "value": "{{ .Payload.After.no }}"}, create,
			"cannot make the value"},
		{"raw payload", map[string]string{"type": "hash"},
			record.Record{Key: create.Key, After: record.Raw([]byte("x"))}, "its payload is raw data"},
		{"empty object", map[string]string{"type": "hash"}, object(record.OperationUpdate, map[string]any{"a": nil}),
			"c:7 delete 0"},
		{"delete record", map[string]string{"type": "string", "expire": "1m"},
			object(record.OperationDelete, map[string]any{"a": "x"}), "c:7 delete 0"},
		{"tombstone", map[string]string{"type": "hash"}, object(record.OperationUpdate, nil), "c:7 delete 0"},
		{"invalidated", map[string]string{"type": "delete"}, create, "c:7 delete 0"},
	} {
		d := &redis.Destination{}
		c.settings["url"], c.settings["key"] = "redis://x", "c:{{ .Key.id }}"
		if err := d.Configure(t.Context(), d.Parameters().ApplyDefaults(c.settings)); err != nil {
			t.Fatal(c.name, err)
		}
		got, err := d.Commands(t.Context(), []record.Record{c.record})
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
