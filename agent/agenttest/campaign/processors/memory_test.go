package processors

import (
	"fmt"
	"runtime/metrics"

	"github.com/conduit-agent/conduit/plugins/record"
)

// allocated returns how many bytes the process has allocated so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func fields(n int) record.Metadata {
	m := make(map[string]string, n)
	for i := range n {
		m[fmt.Sprintf("key%06d", i)] = "value"
	}
	return record.NewMetadata(m)
}
