package batching_test

import (
	"testing"

	"github.com/conduit-agent/conduit/agent/engine/batching"
)

func TestPolicies(t *testing.T) {
	for name, c := range map[string]struct {
		size, delay, rate              string
		gathers, unbounded, neverAlone bool
	}{
		"the defaults of a plugin without batches": {"0", "0", "0", false, false, false},
		"no settings":                 {"", "", "", false, false, false},
		"batches of one":              {"1", "0s", "", true, true, false},
		"batches of two":              {"2", "", "", true, true, true},
		"batches of two, or by time":  {"2", "1s", "", true, true, false},
		"by time":                     {"0", "100ms", "", true, true, false},
		"a time of zero":              {"2", "0h0m0s", "", true, true, true},
		"a rate":                      {"0", "0", "0.5", false, true, false},
		"a rate of zero":              {"0", "0", "0.0", false, false, false},
		"a size that is not a number": {"x", "", "", false, false, false},
	} {
		p := batching.Of(map[string]string{"sdk.batch.size": c.size, "sdk.batch.delay": c.delay, "sdk.rate.perSecond": c.rate})
		if p.Gathers() != c.gathers || p.Unbounded() != c.unbounded || p.NeverAlone() != c.neverAlone {
			t.Errorf("%s: gathers %v, unbounded %v, never alone %v", name, p.Gathers(), p.Unbounded(), p.NeverAlone())
		}
	}
}
