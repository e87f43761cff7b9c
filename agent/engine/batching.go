package engine

import (
	"strconv"
	"strings"
)

// batching is the batching policy in the settings of a destination.
type batching struct {
	size        int64 // sdk.batch.size: records that it waits for before it writes any
	delayed     bool  // sdk.batch.delay: it gathers records for a time
	rateLimited bool  // sdk.rate.perSecond: it writes only so many
}

// batchingOf reads the policy from settings that include the defaults of the plugin.
func batchingOf(settings map[string]string) batching {
	size, _ := strconv.ParseInt(settings["sdk.batch.size"], 10, 64) // the connector refuses what is no number
	// Numbers and durations alike are zero unless they have another digit.
	nonZero := func(name string) bool { return strings.ContainsAny(settings[name], "123456789") }
	return batching{size: size, delayed: nonZero("sdk.batch.delay"), rateLimited: nonZero("sdk.rate.perSecond")}
}

// gathers reports whether the destination gathers records over several writes.
func (b batching) gathers() bool { return b.size > 0 || b.delayed }

// unbounded reports whether the destination may take any time to settle a record.
func (b batching) unbounded() bool { return b.gathers() || b.rateLimited }

// stalls reports whether the destination never writes a record that comes alone.
func (b batching) stalls() bool { return b.size > 1 && !b.delayed }
