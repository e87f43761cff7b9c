package spec

// RecordMemory is the memory for the outstanding records of all pipelines.
type RecordMemory struct {
	Bytes   int64      `json:"bytes" doc:"Bytes that the records of all sources share; with a limit, all other uses share them, too. Each source has a reserve in addition."`
	Used    int64      `json:"used" doc:"Bytes in use."`
	Waiting int64      `json:"waiting" doc:"Number of sources that wait for memory, if there is a limit."`
	By      MemoryUses `json:"by" doc:"Bytes by use. Without a limit, only the bytes of sources have a common bound."`
}

// MemoryUses is the memory for records by use, in bytes.
type MemoryUses struct {
	Sources     int64 `json:"sources" doc:"Outstanding records, and the reservation for records that are being read."`
	Inspectors  int64 `json:"inspectors" doc:"Records on their way to inspecting clients. Without memory, records are dropped and counted."`
	Spools      int64 `json:"spools" doc:"Records of spools that are not yet on disk. Without memory, records go to disk at once."`
	Clients     int64 `json:"clients" doc:"Data that built-in connectors received and the pipeline has not read. Without memory, senders wait or send again."`
	DeadLetters int64 `json:"deadLetters" doc:"Refused records that are being written or shown."`
}

// Each calls f with the name and the bytes of every use.
func (u *MemoryUses) Each(f func(use string, bytes int64)) {
	f("sources", u.Sources)
	f("inspectors", u.Inspectors)
	f("spools", u.Spools)
	f("clients", u.Clients)
	f("dead-letters", u.DeadLetters)
}
