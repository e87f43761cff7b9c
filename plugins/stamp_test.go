package plugins_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/record"
)

// TestStamp checks that stamp adds missing fields at their places to metadata of any keys and capacity, and changes
// nothing else.
func TestStamp(t *testing.T) {
	t.Parallel()
	keys := []string{"a", record.KeySourceConnectorID, "kafka.offset", record.KeyCreatedAt, record.KeyReadAt, "z"}
	rapid.Check(t, func(t *rapid.T) {
		records := make([]record.Record, rapid.IntRange(0, 5).Draw(t, "records"))
		want := make([]record.Metadata, len(records))
		for i := range records {
			md := make(record.Metadata, 0, rapid.IntRange(0, 8).Draw(t, "capacity"))
			for _, key := range keys {
				if rapid.Bool().Draw(t, key) {
					md.Set(key, rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "value"))
				}
			}
			want[i], records[i].Metadata = md.Clone(), md
		}
		plugins.Stamp(records, "p:in")
		var readAt string
		for i, r := range records {
			if readAt == "" && want[i].Get(record.KeyReadAt) == "" {
				readAt = r.Metadata.Get(record.KeyReadAt)
			}
			want[i].SetDefault(record.KeySourceConnectorID, "p:in")
			want[i].SetDefault(record.KeyReadAt, readAt)
			if !r.Metadata.Equal(want[i]) || r.Metadata.Get(record.KeyReadAt) == "" {
				t.Fatalf("record %d has %v, want %v", i, r.Metadata, want[i])
			}
		}
	})
}
