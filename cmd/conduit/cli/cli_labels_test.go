package cli

import (
	"testing"
)

func TestLabelSelector(t *testing.T) {
	shop := map[string]string{"team": "shop", "site": "berlin"}
	for text, want := range map[string]bool{
		"team=shop": true, "team==shop": true, "team=ops": false, "team!=ops": true, "team!=shop": false,
		"tier!=1": true, "tier=1": false,
		"site": true, "tier": false, "!tier": true, "!site": false, "team=shop,site=berlin": true,
		"team=shop, site=paris": false,
	} {
		s, err := ParseLabels(text)
		if got := s.Matches(shop); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "=shop", "team=shop,", "a b", "!", "a=b=c"} {
		if s, err := ParseLabels(text); err == nil {
			t.Errorf("%q is a selector: %v", text, s)
		}
	}
	if all := LabelSelector(nil); !all.Matches(nil) {
		t.Error("the empty selector does not select everything")
	}
}
