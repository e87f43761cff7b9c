package spec

// RecordMemory is the memory for the outstanding records of all pipelines.
type RecordMemory struct {
	// Bytes that the records of all sources share; with a limit, all other uses share them, too. Each source has a
	// reserve in addition.
	Bytes int64 `json:"bytes"`
	// Bytes in use.
	Used int64 `json:"used"`
	// Number of sources that wait for memory, if there is a limit.
	Waiting int64 `json:"waiting"`
	// Bytes by use. Without a limit, only the bytes of sources have a common bound.
	By MemoryUses `json:"by"`
}

// MemoryUses is the memory for records by use, in bytes.
type MemoryUses struct {
	// Outstanding records, and the reservation for records that are being read.
	Sources int64 `json:"sources"`
	// Records on their way to inspecting clients. Without memory, records are dropped and counted.
	Inspectors int64 `json:"inspectors"`
	// Records of spools that are not yet on disk. Without memory, records go to disk at once.
	Spools int64 `json:"spools"`
	// Data that built-in connectors received and the pipeline has not read. Without memory, senders wait or send again.
	Clients int64 `json:"clients"`
	// Refused records that are being written or shown.
	DeadLetters int64 `json:"deadLetters"`
}

// Each calls f with the name and the bytes of every use.
func (u *MemoryUses) Each(f func(use string, bytes int64)) {
	f("sources", u.Sources)
	f("inspectors", u.Inspectors)
	f("spools", u.Spools)
	f("clients", u.Clients)
	f("dead-letters", u.DeadLetters)
}
