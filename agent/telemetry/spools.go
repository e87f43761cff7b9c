package telemetry

import "github.com/conduit-agent/conduit/plugins/spoollog"

// spools reports the open spools.
func spools(gauge gauge, counter counter) {
	for _, l := range spoollog.Shared() {
		s, path := l.Stats(), l.Dir()
		gauge(spoolRecordsDesc, float64(s.Records), path)
		gauge(spoolBytesDesc, float64(s.Bytes), path)
		if s.Limit > 0 {
			gauge(spoolLimitDesc, float64(s.Limit), path)
		}
		gauge(spoolMemoryDesc, float64(s.Memory), path)
		counter(spoolWrittenDesc, uint64(s.Written), path)
		counter(spoolDroppedDesc, s.Dropped, path)
		counter(spoolDamagedDesc, s.Damaged, path)
		for _, r := range s.Readers {
			gauge(spoolBehindDesc, float64(r.Behind), path, r.Name)
		}
	}
}
