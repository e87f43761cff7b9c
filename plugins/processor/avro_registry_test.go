package processor_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/spec"
)

// failing returns err for every request for an id.
type failing struct {
	schema.Memory
	err error
}

func (f *failing) ByID(context.Context, int) (schema.Schema, error) { return schema.Schema{}, f.err }

// A record is refused if a registry does not have its schema. If the registry cannot be reached, the run ends and
// starts again, because the record is not at fault.
func TestAvroDecodeWithoutSchema(t *testing.T) {
	for _, c := range []struct {
		err     error
		refused string
	}{
		{schema.ErrSubjectNotFound, "the schema registry has no schema with this id; set schema-registry"},
		{schema.ErrInvalidSchema, "cannot get schema 7: invalid schema"},
		{errors.New("connection refused"), ""},
	} {
		options := processor.Options{Registry: &processor.Registry{Builtin: processors.All()},
			Schemas: &failing{err: c.err}}
		chain, err := processor.Open(t.Context(), "p", []spec.Processor{{ID: "d", Plugin: "avro.decode"}}, options)
		if err != nil {
			t.Fatal(err)
		}
		out, err := chain.Process(t.Context(), 1,
			[]record.Record{{After: record.Raw([]byte("\x00\x00\x00\x00\x07\x0e"))}})
		if c.refused == "" {
			if err == nil || !strings.Contains(err.Error(), "connection refused") {
				t.Errorf("without a registry: %v, %+v", err, out)
			}
			continue
		}
		if err != nil || len(out.Refused) != 1 || !strings.Contains(out.Refused[0].Err.Error(), c.refused) {
			t.Errorf("%v: %v, %+v", c.err, err, out)
		}
	}
}
