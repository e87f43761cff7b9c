package common

import "github.com/conduit-agent/conduit/plugins/record"

// Written holds the records that a destination had already written when it refused an earlier record of the same batch.
// The host repeats them.
type Written struct{ ids []string }

// Keep stores the written records. They directly follow the refused one.
func (w *Written) Keep(records []record.Record) {
	w.ids = w.ids[:0]
	for i := range records {
		w.ids = append(w.ids, OriginOf(&records[i]))
	}
}

// Skip returns the number of records at the beginning of records that were already written.
func (w *Written) Skip(records []record.Record) int {
	n := 0
	for n < len(records) && n < len(w.ids) && w.ids[n] == OriginOf(&records[n]) {
		n++
	}
	w.ids = w.ids[n:]
	if n < len(records) {
		w.ids = nil
	}
	return n
}
