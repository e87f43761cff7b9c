package flow

import "github.com/conduit-agent/conduit/plugins/sdk"

// Compact rewrites the journal of a dedupe.
func Compact(p sdk.Processor) error {
	d := p.(*dedupe)
	return d.journal.rewrite(d.committed())
}

// BreakJournal makes every operation on the journal of a dedupe fail.
func BreakJournal(p sdk.Processor) { _ = p.(*dedupe).journal.file.Close() }
