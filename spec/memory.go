package spec

// RecordMemory is the memory for the outstanding records of all pipelines.
type RecordMemory struct {
	Bytes   int64      `json:"bytes" doc:"That the records of all sources share; where there is a limit, with all other uses. Each source has a part beyond them."`
	Used    int64      `json:"used" doc:"Of them."`
	Waiting int64      `json:"waiting" doc:"Sources that wait for memory, where there is a limit."`
	By      MemoryUses `json:"by" doc:"Bytes by use. Without a limit only those of sources are bounded together."`
}

// MemoryUses is the memory for records by use, in bytes.
type MemoryUses struct {
	Sources     int64 `json:"sources" doc:"Outstanding records, and what is reserved for those that are being read."`
	Inspectors  int64 `json:"inspectors" doc:"Records on their way to clients that inspect them. Those that there is no memory for are dropped, and counted."`
	Spools      int64 `json:"spools" doc:"Records of spools that are not on the disk. Those that there is no memory for go there at once."`
	Clients     int64 `json:"clients" doc:"What built-in connectors received and is yet to be read. They make their senders wait, or send again."`
	DeadLetters int64 `json:"deadLetters" doc:"Refused records that are being written, or shown."`
}

// Each calls f with the name and the bytes of every use.
func (u *MemoryUses) Each(f func(use string, bytes int64)) {
	f("sources", u.Sources)
	f("inspectors", u.Inspectors)
	f("spools", u.Spools)
	f("clients", u.Clients)
	f("dead-letters", u.DeadLetters)
}
