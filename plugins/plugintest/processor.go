package plugintest

import (
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Process passes records to p, which is configured, and returns the fate of each.
func Process(t testing.TB, p sdk.Processor, records ...record.Record) []sdk.Fate {
	t.Helper()
	b := sdk.NewProcessBatch(nil, records, nil)
	if err := p.Process(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if b.Fates() == nil {
		return make([]sdk.Fate, len(records))
	}
	return b.Fates()
}
