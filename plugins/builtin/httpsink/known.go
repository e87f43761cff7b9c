package httpsink

import (
	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/record"
)

// known holds the outcomes of the records after a refused one, which the server has reported with it. The host repeats
// these records.
type known struct{ outcomes []outcome }

type outcome struct {
	origin string // see common.OriginOf
	err    error  // nil: written
}

// keep stores the outcomes of records. They directly follow the refused one.
func (k *known) keep(records []record.Record, outcomes []error) {
	k.outcomes = k.outcomes[:0]
	for i := range records {
		k.outcomes = append(k.outcomes, outcome{common.OriginOf(&records[i]), outcomes[i]})
	}
}

// replay returns the number of records at the beginning of records that are written, and why the next one is refused,
// if that is known.
func (k *known) replay(records []record.Record) (n int, err error) {
	for n < len(records) && n < len(k.outcomes) && k.outcomes[n].origin == common.OriginOf(&records[n]) {
		if err = k.outcomes[n].err; err != nil {
			k.outcomes = k.outcomes[n+1:]
			return n, err
		}
		n++
	}
	if k.outcomes = k.outcomes[n:]; n < len(records) {
		k.outcomes = nil
	}
	return n, nil
}
