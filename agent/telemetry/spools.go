package telemetry

import "github.com/conduit-agent/conduit/plugins/spoollog"

var (
	spoolRecordsDesc = desc("conduit_spool_records", "Records in a spool.", "path")
	spoolBytesDesc   = desc("conduit_spool_bytes", "Bytes of a spool on disk.", "path")
	spoolMemoryDesc  = desc("conduit_spool_memory_bytes", "Bytes of a spool that wait in memory.", "path")
	spoolWrittenDesc = desc("conduit_spool_written_bytes_total", "Bytes written to a spool.", "path")
	spoolDroppedDesc = desc("conduit_spool_dropped_records_total", "Records dropped because a spool was full.", "path")
	spoolDamagedDesc = desc("conduit_spool_damaged_records_total", "Records of a spool that were damaged on the disk.", "path")
	spoolBehindDesc  = desc("conduit_spool_reader_behind_records", "Records of a spool that a reader has not acknowledged, also while it is away.", "path", "reader")
)

// spools reports the spools that are open.
func spools(gauge gauge, counter counter) {
	for _, l := range spoollog.Shared() {
		s, path := l.Stats(), l.Dir()
		gauge(spoolRecordsDesc, float64(s.Records), path)
		gauge(spoolBytesDesc, float64(s.Bytes), path)
		gauge(spoolMemoryDesc, float64(s.Memory), path)
		counter(spoolWrittenDesc, uint64(s.Written), path)
		counter(spoolDroppedDesc, s.Dropped, path)
		counter(spoolDamagedDesc, s.Damaged, path)
		for _, r := range s.Readers {
			gauge(spoolBehindDesc, float64(r.Behind), path, r.Name)
		}
	}
}
