package deadletter

import (
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// ScanStep is the maximum number of dead letters that a page reads after its time is over.
const ScanStep = scanStep

// SetScanTime sets the time of a page, until restore is called.
func SetScanTime(d time.Duration) (restore func()) {
	before := scanTime
	scanTime = d
	return func() { scanTime = before }
}

// Enter returns where a dead letter enters p, as text: the place, the connector, the index of the processor, and the
// only destination that gets it.
func Enter(p *spec.Pipeline, l *Replay, from spec.ReplayFrom) (string, error) {
	r, err := enter(p, l, from)
	places := []string{"source", "pipeline", "destination's processors", "destination"}
	text := fmt.Sprintf("%s %s %d", places[r.place], r.connector, r.from)
	if r.only != "" {
		text += " only " + r.only
	}
	return text, err
}
