package sqlsink

import "github.com/conduit-agent/conduit/plugins/builtin/common"

// Ledger stores the ids of the last written records, in the transaction that writes them. After a restart an agent
// resends the outstanding records and no others: the writer skips those in the ledger. A row has the ids of a
// transaction. Records that processors made from one record may be in different transactions, so each has its own id.
type Ledger struct {
	Connector string // connector id

	ids     common.RecordIDs
	known   map[common.RecordID]struct{} // written before the ledger was opened; nil when they cannot arrive again
	batches []batch                      // stored, oldest first
	kept    int                          // ids in batches
	next    int64                        // number of the next batch
	since   int                          // records written since the ledger was opened
}

const idBytes = len(common.RecordID{})

type batch struct {
	number int64
	n      int
}

// Clear empties the ledger, so that Add can fill it again.
func (l *Ledger) Clear() {
	*l = Ledger{Connector: l.Connector, ids: l.ids, known: map[common.RecordID]struct{}{}}
}

// Add adds the content of a table row. The caller adds rows in the order of their numbers.
func (l *Ledger) Add(number int64, hashes []byte) {
	n := 0
	for ; len(hashes) >= idBytes; hashes = hashes[idBytes:] {
		l.known[common.RecordID(hashes[:idBytes])] = struct{}{}
		n++
	}
	l.batches, l.kept, l.next = append(l.batches, batch{number, n}), l.kept+n, number+1
}

func (l *Ledger) has(id common.RecordID) bool {
	_, ok := l.known[id]
	return ok
}

// Next returns the number of the row to add with these hashes, and the number of the last row to delete together with
// all earlier rows, or -1 if there is none.
func (l *Ledger) Next(hashes []byte) (number, last int64) {
	last = -1
	if old := l.old(len(hashes) / idBytes); old > 0 {
		last = l.batches[old-1].number
	}
	return l.next, last
}

// old returns the number of batches that can be deleted once n more hashes are stored.
func (l *Ledger) old(n int) int {
	kept, old := l.kept+n, 0
	for old < len(l.batches) && kept-l.batches[old].n >= common.IDWindow {
		kept -= l.batches[old].n
		old++
	}
	return old
}

// noted records the commit of a transaction with n hashes.
func (l *Ledger) noted(n int) {
	old := l.old(n)
	for _, b := range l.batches[:old] {
		l.kept -= b.n
	}
	l.batches = append(l.batches[old:], batch{l.next, n})
	l.next++
	l.kept += n
	if l.since += n; l.since > common.IDWindow {
		l.known = nil // all outstanding records arrived long ago
	}
}
