// Package watchdog finds connectors that do not answer.
package watchdog

import "time"

// LastAnswer is how far a connector was when it last answered.
type LastAnswer struct {
	answers uint64
	at      time.Time
}

// Stalled reports whether the connector has not answered for as long as the limit, and
// otherwise keeps how far it is.
func (p *LastAnswer) Stalled(now func() (answers uint64, idle bool), at time.Time, limit time.Duration) bool {
	answers, idle := now()
	if idle || answers != p.answers || p.at.IsZero() {
		*p = LastAnswer{answers, at}
		return false
	}
	return at.Sub(p.at) >= limit
}
