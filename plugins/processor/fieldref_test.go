package processor_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
)

func sample() *record.Record {
	return &record.Record{
		Position:  record.Position("p"),
		Operation: record.OperationUpdate,
		Metadata:  record.NewMetadata(map[string]string{"a.b": "dotted", "m": "v"}),
		Key:       record.Raw([]byte("key")),
		After: record.Structured(map[string]any{"a": int64(1), "n": map[string]any{"first name": "Ann"},
			"nil": nil}),
	}
}

func TestGet(t *testing.T) {
	for text, want := range map[string]any{
		".Position":                      []byte("p"),
		".Operation":                     record.OperationUpdate,
		".Metadata.m":                    "v",
		`.metadata["a.b"]`:               "dotted",
		".Metadata.none":                 nil,
		"$.Key":                          []byte("key"),
		".Key.id":                        "cannot resolve .Key.id: .Key does not contain structured data",
		".Payload.Before":                nil,
		".Payload.Before.x.y":            nil,
		".payload.after.a":               int64(1),
		`.Payload.After.n["first name"]`: "Ann",
		".Payload.After.x.y":             nil,
		".Payload.After.nil.y":           nil,
		".Payload.After.a.b": "cannot resolve .Payload.After.a.b: .Payload.After.a does not contain " +
			"structured data",
		`.Payload.After.n["first name"].x`: `cannot resolve .Payload.After.n["first name"].x: ` +
			`.Payload.After.n["first name"] does not contain structured data`,
	} {
		r := sample()
		v, _, err := parse(t, text).Get(r)
		if err != nil {
			v = err.Error()
		}
		if diff := cmp.Diff(want, v); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		if !r.Equal(*sample()) {
			t.Errorf("%s: reading changed the record: %v", text, r)
		}
	}
}

func parse(t *testing.T, text string) *fieldref.Ref {
	t.Helper()
	f, err := fieldref.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                "it is empty",
		".Foo":            `unexpected field "Foo"`,
		".Payload.Other":  `unexpected field "Other"`,
		".Position.x":     `unexpected field "x"`,
		".Metadata.a.b":   ".Metadata fields are not structured",
		".Key.a-b":        "bad character '-'",
		".Key.1a":         "bad character '1'",
		"Payload.After":   "unexpected character 'P'",
		" .Payload.After": "unexpected character ' '",
		".Key.":           "a name is missing",
		`["Key"]`:         "unexpected character '['",
		`.Key["open`:      "has no end",
	} {
		if f, err := fieldref.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %s", text, f, err, want)
		}
	}
}

func TestSet(t *testing.T) {
	raw := func(s string) record.Data { return record.Raw([]byte(s)) }
	for _, c := range []struct {
		ref  string
		v    any
		want func(r *record.Record)
		err  string
	}{
		{ref: ".", v: "x", err: "cannot set .: the reference is immutable"},
		{ref: ".Position", v: "x", err: "cannot set .Position: the reference is immutable"},
		{ref: ".Operation", v: "delete", want: func(r *record.Record) { r.Operation = record.OperationDelete }},
		{ref: ".Operation", v: "4", want: func(r *record.Record) { r.Operation = record.OperationSnapshot }},
		{ref: ".Operation", v: "upsert", err: `cannot parse operation "upsert"`},
		{ref: ".Metadata.x", v: "y", want: func(r *record.Record) { r.Metadata.Set("x", "y") }},
		{ref: ".Metadata.m", v: nil, want: func(r *record.Record) { r.Metadata.Delete("m") }},
		{ref: ".Metadata.m", v: 5, err: "unexpected type integer"},
		{ref: ".Metadata", v: nil, want: func(r *record.Record) { r.Metadata = nil }},
		{ref: ".Key", v: "text", want: func(r *record.Record) { r.Key = raw("text") }},
		{ref: ".Key", v: nil, want: func(r *record.Record) { r.Key = record.Data{} }},
		{ref: ".Payload.After", v: []any{1}, err: "cannot set .Payload.After: unexpected type list"},
		{ref: ".Payload", v: "x", err: "cannot set .Payload: unexpected type text"},
		{ref: ".Key.id", v: 1, err: ".Key does not contain structured data"},
		{ref: ".Payload.Before.x.y", v: true, want: func(r *record.Record) {
			r.Before = record.Structured(map[string]any{"x": map[string]any{"y": true}})
		}},
		{ref: ".Payload.After.a.b", v: true, err: ".Payload.After.a does not contain structured data"},
		{ref: ".Payload.After.nil.b", v: true, want: func(r *record.Record) {
			m, _ := r.After.Structured()
			m["nil"] = map[string]any{"b": true}
		}},
	} {
		change(t, c.ref, c.err, c.want, func(f *fieldref.Ref, r *record.Record) error { return f.Set(r, c.v) })
	}
}

func change(
	t *testing.T, ref, wantErr string, want func(*record.Record), do func(*fieldref.Ref, *record.Record) error,
) {
	t.Helper()
	got, expected := sample(), sample()
	err := do(parse(t, ref), got)
	if wantErr != "" {
		if err == nil || !strings.Contains(err.Error(), wantErr) {
			t.Errorf("%s: %v, want %s", ref, err, wantErr)
		}
	} else if err != nil {
		t.Errorf("%s: %v", ref, err)
	}
	if want != nil {
		want(expected)
	}
	if !got.Equal(*expected) {
		t.Errorf("%s made\n%v, want\n%v", ref, got, expected)
	}
}

func TestDelete(t *testing.T) {
	for _, c := range []struct {
		ref, err string
		want     func(r *record.Record)
	}{
		{ref: ".Payload.After.x.y"}, // creates no parents
		{ref: ".Payload.Before.x"},
		{ref: ".Payload.After.a", want: func(r *record.Record) { m, _ := r.After.Structured(); delete(m, "a") }},
		{ref: ".Payload", want: func(r *record.Record) { r.After = record.Data{} }},
		{ref: ".Key", want: func(r *record.Record) { r.Key = record.Data{} }},
		{ref: ".Key.k", err: ".Key does not contain structured data"},
		{ref: ".Metadata", want: func(r *record.Record) { r.Metadata = record.Metadata{} }},
		{ref: ".Operation", err: "immutable"},
	} {
		change(t, c.ref, c.err, c.want, (*fieldref.Ref).Delete)
	}
}

func TestRename(t *testing.T) {
	for _, c := range []struct {
		ref, to, err string
		want         func(r *record.Record)
	}{
		{ref: ".Key", to: "x", err: "cannot rename .Key: the reference is immutable"},
		{ref: ".Payload.After.none", to: "x"},
		{ref: ".Payload.After.a", to: "a"},
		{ref: ".Payload.After.a", to: "n", err: `field "n" already exists`},
		{ref: ".Payload.After.a", to: "b", want: func(r *record.Record) {
			m, _ := r.After.Structured()
			delete(m, "a")
			m["b"] = int64(1)
		}},
		{ref: ".Metadata.m", to: "a.b", err: `field "a.b" already exists`},
		{ref: ".Metadata.none", to: "x"},
		{ref: ".Metadata.m", to: "x", want: func(r *record.Record) {
			r.Metadata.Delete("m")
			r.Metadata.Set("x", "v")
		}},
	} {
		change(t, c.ref, c.err, c.want, func(f *fieldref.Ref, r *record.Record) error { return f.Rename(r, c.to) })
	}
}

func TestPartsAndText(t *testing.T) {
	for text, want := range map[string]schema.Parts{
		".":                     {Key: true, Payload: true},
		".Metadata.m":           {},
		".Key.id":               {Key: true},
		`.Payload.After["a b"]`: {Payload: true},
		".Payload":              {Payload: true},
	} {
		f := parse(t, text)
		if f.Parts() != want || f.String() != text {
			t.Errorf("%s: reads %+v and is written %s", text, f.Parts(), f)
		}
	}
	refs, err := fieldref.ParseList(`.Key, .Payload.After["a,b"]`)
	if err != nil || len(refs) != 2 || refs[1].String() != `.Payload.After["a,b"]` {
		t.Errorf("%v, %v", refs, err)
	}
}
