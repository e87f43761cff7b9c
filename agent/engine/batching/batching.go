// Package batching reads the batching policy of a destination.
package batching

import (
	"strconv"
	"strings"
	"time"
)

// Policy is the batching policy in the settings of a destination.
type Policy struct {
	Size        int64         // sdk.batch.size: records that it waits for before it writes any
	Delay       time.Duration // sdk.batch.delay: how long it gathers records; 0 when that is not known
	delayed     bool          // sdk.batch.delay: it gathers records for a time
	Rate        float64       // sdk.rate.perSecond: records that it writes in a second; 0 when that is not known
	rateLimited bool          // it writes only so many
}

// Of reads the policy from settings that include the defaults of the plugin.
func Of(settings map[string]string) Policy {
	size, _ := strconv.ParseInt(settings["sdk.batch.size"], 10, 64) // the connector refuses what is no number
	// Numbers and durations alike are zero unless they have another digit.
	nonZero := func(name string) bool { return strings.ContainsAny(settings[name], "123456789") }
	delay, _ := time.ParseDuration(settings["sdk.batch.delay"])
	rate, _ := strconv.ParseFloat(settings["sdk.rate.perSecond"], 64)
	return Policy{Size: size, Delay: delay, Rate: rate, delayed: nonZero("sdk.batch.delay"), rateLimited: nonZero("sdk.rate.perSecond")}
}

// Gathers reports whether the destination gathers records over several writes.
func (p Policy) Gathers() bool { return p.Size > 0 || p.delayed }

// Limited reports whether the destination is to write only so many records per second.
func (p Policy) Limited() bool { return p.rateLimited }

// Unbounded reports whether the destination may take any time to settle a record.
func (p Policy) Unbounded() bool { return p.Gathers() || p.rateLimited }

// NeverAlone reports whether the destination never writes a record that comes alone.
func (p Policy) NeverAlone() bool { return p.Size > 1 && !p.delayed }
