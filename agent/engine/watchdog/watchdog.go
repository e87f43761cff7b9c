// Package watchdog finds connectors that do not answer.
package watchdog

import "time"

// Progress is how far a connector has got.
type Progress struct {
	Answers uint64        // that it gave
	Idle    bool          // it may take any time for the next
	Longer  time.Duration // how much longer than others it may take for the next
}

// LastAnswer is how far a connector was when it last answered.
type LastAnswer struct {
	answers uint64
	at      time.Time
}

// Stalled reports whether the connector has not answered for as long as the limit, and
// otherwise keeps how far it is.
func (p *LastAnswer) Stalled(now func() Progress, at time.Time, limit time.Duration) bool {
	is := now()
	if is.Idle || is.Answers != p.answers || p.at.IsZero() {
		*p = LastAnswer{is.Answers, at}
		return false
	}
	return at.Sub(p.at)-limit >= is.Longer
}
