package engine

import (
	"strconv"
	"strings"
)

// pace says how long the settings of a destination have it take.
type pace struct {
	size   int64 // sdk.batch.size: records that it waits for before it writes any
	delays bool  // sdk.batch.delay: it gathers records for a time
	slow   bool  // sdk.rate.perSecond: it writes only so many
}

// paceOf reads it from settings that include the defaults of the plugin.
func paceOf(settings map[string]string) pace {
	size, _ := strconv.ParseInt(settings["sdk.batch.size"], 10, 64) // the connector refuses what is no number
	// Numbers and durations alike are zero unless they have another digit.
	some := func(name string) bool { return strings.ContainsAny(settings[name], "123456789") }
	return pace{size: size, delays: some("sdk.batch.delay"), slow: some("sdk.rate.perSecond")}
}

// gathers reports whether the destination gathers records over writes.
func (p pace) gathers() bool { return p.size > 0 || p.delays }

// patient reports whether the destination may take any time to answer.
func (p pace) patient() bool { return p.gathers() || p.slow }

// stalls reports whether the destination never writes a record that comes alone.
func (p pace) stalls() bool { return p.size > 1 && !p.delays }
