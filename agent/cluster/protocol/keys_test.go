package protocol

import (
	"regexp"
	"strings"
	"testing"
)

// TestKeysAreInjective checks that no two ids share a key, and that every key is one token after its prefix.
func TestKeysAreInjective(t *testing.T) {
	ids := []string{"shop", "Shop", "shop:eu", "shop.eu", "shop-eu", "shop_eu", "shop/eu", ".", "..", "*", ">", "a.1",
		"a", strings.Repeat("L", 128)}
	for number := 2; number <= MaxInstances; number++ {
		ids = append(ids, InstanceID("shop", number))
	}
	taken := map[string]string{}
	for _, id := range ids {
		for what, key := range map[string]string{"session": SessionKey(id), "claim": ClaimKey(id),
			"override": OverrideKey(id), "declared": DeclaredKey(id),
			"versions": VersionsKey(id), "dead letters": DeadLettersKey(id), "segment": SegmentKey(id, 1),
			"report": ReportKey(id)} {
			if other := taken[key]; other != "" || !regexp.MustCompile(`^[a-z]+\.[0-9A-V]+(\.[0-9]+)?$`).MatchString(
				key) || len(key) > 250 {
				t.Errorf("%s of %q has the key %q, as has %q", what, id, key, other)
			}
			taken[key] = what + " of " + id
		}
		if got := pipelineOfKey(ClaimKey(id)); got != id {
			t.Errorf("the claim of %q is taken for one of %q", id, got)
		}
	}
}
