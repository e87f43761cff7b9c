package sqlsink

import "github.com/conduit-agent/conduit/plugins/builtin/recordid"

// Ledger keeps the ids of the records written last, in the transaction that writes them. After a restart an agent sends
// the outstanding records again, and no others: the writer skips those in the ledger. A row has the ids of one
// transaction. Records that processors made from one record may be in different transactions, so each has its own id.
type Ledger struct {
	Connector string // id

	ids     recordid.Sequence
	known   map[recordid.ID]struct{} // written before it was opened; nil when they cannot come again
	batches []batch                  // kept, oldest first
	kept    int                      // hashes in batches
	next    int64                    // number of the next batch
	since   int                      // records written since it was opened
}

const idBytes = len(recordid.ID{})

type batch struct {
	number int64
	n      int
}

// Clear has the ledger be filled again, with Add.
func (l *Ledger) Clear() {
	*l = Ledger{Connector: l.Connector, ids: l.ids, known: map[recordid.ID]struct{}{}}
}

// Add adds what a row of the table has. Rows come in the order of their numbers.
func (l *Ledger) Add(number int64, hashes []byte) {
	n := 0
	for ; len(hashes) >= idBytes; hashes = hashes[idBytes:] {
		l.known[recordid.ID(hashes[:idBytes])] = struct{}{}
		n++
	}
	l.batches, l.kept, l.next = append(l.batches, batch{number, n}), l.kept+n, number+1
}

func (l *Ledger) has(id recordid.ID) bool {
	_, ok := l.known[id]
	return ok
}

// Next returns the number of the row to add with these hashes, and that of the last row to
// remove with all before it: -1 when there is none.
func (l *Ledger) Next(hashes []byte) (number, last int64) {
	last = -1
	if old := l.old(len(hashes) / idBytes); old > 0 {
		last = l.batches[old-1].number
	}
	return l.next, last
}

// old returns how many of the batches need not be kept once n more hashes are noted.
func (l *Ledger) old(n int) int {
	kept, old := l.kept+n, 0
	for old < len(l.batches) && kept-l.batches[old].n >= recordid.Window {
		kept -= l.batches[old].n
		old++
	}
	return old
}

// noted takes note that the transaction with n hashes was committed.
func (l *Ledger) noted(n int) {
	old := l.old(n)
	for _, b := range l.batches[:old] {
		l.kept -= b.n
	}
	l.batches = append(l.batches[old:], batch{l.next, n})
	l.next++
	l.kept += n
	if l.since += n; l.since > recordid.Window {
		l.known = nil // what was outstanding came long ago
	}
}
