package engine

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// BatchPolicy is the batching policy in the settings of a destination.
type BatchPolicy struct {
	Size    int64         // sdk.batch.size: number of records that it gathers before it writes any
	Delay   time.Duration // sdk.batch.delay: how long it gathers records
	delayed bool          // a delay is set; Delay may be unable to represent it
	rate    float64       // sdk.rate.perSecond: maximum records per second
	limited bool          // a rate is set; rate may be unable to represent it
}

// BatchPolicyOf reads the policy from settings that include the defaults of the plugin. Invalid values, which the
// connector refuses or interprets itself, count as no size and as a delay or rate of unknown length.
func BatchPolicyOf(settings map[string]string) (p BatchPolicy) {
	p.Size, _ = strconv.ParseInt(settings["sdk.batch.size"], 10, 64)
	p.Delay, _ = time.ParseDuration(settings["sdk.batch.delay"])
	p.rate, _ = strconv.ParseFloat(settings["sdk.rate.perSecond"], 64)
	// A number or duration is zero unless it has a nonzero digit.
	nonZero := func(name string) bool { return strings.ContainsAny(settings[name], "123456789") }
	p.delayed, p.limited = nonZero("sdk.batch.delay"), nonZero("sdk.rate.perSecond")
	return p
}

// Gathers reports whether the destination gathers records over several writes.
func (p BatchPolicy) Gathers() bool { return p.Size > 0 || p.delayed }

// Limited reports whether the rate of the destination is limited.
func (p BatchPolicy) Limited() bool { return p.limited }

// NeverAlone reports whether the destination never writes a record that comes alone.
func (p BatchPolicy) NeverAlone() bool { return p.Size > 1 && !p.delayed }

// Waits reports whether this number of written records is an incomplete batch, which the destination may hold for any
// time.
func (p BatchPolicy) Waits(records uint64) bool {
	return !p.delayed && p.Size > 0 && records < uint64(p.Size)
}

// Takes returns how long the destination may wait, by its settings, before it settles the first of this number of
// records.
func (p BatchPolicy) Takes(records uint64) time.Duration {
	if p.delayed && p.Delay <= 0 || p.limited && !(p.rate > 0) {
		return math.MaxInt64
	}
	seconds := 0.0
	if p.limited {
		seconds = float64(records) / p.rate
	}
	if seconds += p.Delay.Seconds(); seconds > float64(math.MaxInt64/time.Second) {
		return math.MaxInt64
	}
	return time.Duration(seconds * float64(time.Second))
}
