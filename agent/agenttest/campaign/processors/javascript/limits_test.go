package javascript

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/processor/javascript"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// TestRegularExpressionEnds checks that a regular expression is interrupted at the timeout of the script, which is as
// long here as in an agent. The record is refused, and the next one is processed.
func TestRegularExpressionEnds(t *testing.T) {
	p := javascript.Plugin().New()
	settings := p.Parameters().ApplyDefaults(map[string]string{"timeout": "1s", "script": `function process(rec) {
		if (rec.Metadata.bad) { /^(a+)+(?!b)$/.test("a".repeat(40) + "c") }
		return rec }`})
	if err := p.Configure(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	if err := p.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Teardown(t.Context()) }()
	b := sdk.NewProcessBatch(nil, []record.Record{{Metadata: record.Metadata{{Key: "bad", Value: "1"}}}, {}}, nil)
	if err := p.Process(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if f := b.Fates(); f[0].Kind != sdk.Refused || !strings.Contains(f[0].Err.Error(), "took longer than 1s") ||
		f[1].Kind != sdk.Kept {
		t.Errorf("fates are %+v", f)
	}
}
