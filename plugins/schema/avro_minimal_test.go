//go:build minimal

package schema_test

import (
	"testing"

	"github.com/conduit-agent/conduit/plugins/schema/avro"
)

func TestAvroMinimal(t *testing.T) {
	n, err := avro.Parse(`{"type":"record","name":"R","fields":[{"name":"a","type":["null","R"],"default":null}]}`)
	if err != nil || n.Fields[0].Type.Branches[1].Type != "R" {
		t.Errorf("%+v, %v", n, err)
	}
	if _, err := avro.Parse(`{"type":"record","name":"R","fields":[{"name":"a","type":"Later"}]}`); err == nil {
		t.Error("an unknown type is accepted")
	}
}
