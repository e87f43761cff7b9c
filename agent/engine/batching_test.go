package engine_test

import (
	"math"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
)

func TestBatchPolicies(t *testing.T) {
	const ever = time.Duration(math.MaxInt64)
	for name, c := range map[string]struct {
		size, delay, rate          string
		gathers, neverAlone, waits bool          // with 3 written records
		takes                      time.Duration // for 3 records
	}{
		"the defaults of a plugin without batches": {"0", "0", "0", false, false, false, 0},
		"no settings":                  {"", "", "", false, false, false, 0},
		"batches of one":               {"1", "0s", "", true, false, false, 0},
		"batches of three":             {"3", "", "", true, true, false, 0},
		"batches of four":              {"4", "", "", true, true, true, 0},
		"batches of four, or by time":  {"4", "1s", "", true, false, false, time.Second},
		"by time":                      {"0", "100ms", "", true, false, false, 100 * time.Millisecond},
		"a time of zero":               {"2", "0h0m0s", "", true, true, false, 0},
		"a rate":                       {"0", "0", "0.5", false, false, false, 6 * time.Second},
		"a rate and a time":            {"0", "1s", "1.5", true, false, false, 3 * time.Second},
		"a rate of zero":               {"0", "0", "0.0", false, false, false, 0},
		"a rate that takes for ever":   {"0", "0", "1e-300", false, false, false, ever},
		"a rate that is not a number":  {"0", "0", "1/s", false, false, false, ever},
		"a rate that is no rate":       {"0", "0", "-1", false, false, false, ever},
		"a size that is not a number":  {"x", "", "", false, false, false, 0},
		"a delay that is not a time":   {"0", "5", "", true, false, false, ever},
		"a delay before the beginning": {"0", "-5s", "", true, false, false, ever},
	} {
		p := engine.BatchPolicyOf(
			map[string]string{"sdk.batch.size": c.size, "sdk.batch.delay": c.delay, "sdk.rate.perSecond": c.rate})
		if p.Gathers() != c.gathers || p.NeverAlone() != c.neverAlone || p.Waits(3) != c.waits ||
			p.Takes(3) != c.takes {
			t.Errorf("%s: gathers %v, never alone %v, waits %v, takes %v", name, p.Gathers(), p.NeverAlone(),
				p.Waits(3), p.Takes(3))
		}
	}
}
