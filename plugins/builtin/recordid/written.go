package recordid

import "github.com/conduit-agent/conduit/plugins/record"

// Written has the records behind a refused one that a destination, which writes several at once, had written by
// then. The host writes them again.
type Written struct{ ids []string }

// Keep takes note of records that were written, which are those next to the refused one.
func (w *Written) Keep(records []record.Record) {
	w.ids = w.ids[:0]
	for i := range records {
		w.ids = append(w.ids, Of(&records[i]))
	}
}

// Skip returns how many records at the beginning of those that come were written already.
func (w *Written) Skip(records []record.Record) int {
	n := 0
	for n < len(records) && n < len(w.ids) && w.ids[n] == Of(&records[n]) {
		n++
	}
	w.ids = w.ids[n:]
	if n < len(records) {
		w.ids = nil
	}
	return n
}
