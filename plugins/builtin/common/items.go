package common

import (
	"fmt"
	"slices"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// CheckItems returns an sdk.SettingError if an item of a list is invalid, occurs twice, or overlaps with another item.
// wrong describes the mistake in an item; "" if it is valid. overlap reports whether two items select the same data; if
// overlap is nil, only equal items overlap.
func CheckItems(setting string, items []string, wrong func(item string) string, overlap func(a, b string) bool) error {
	for i, item := range items {
		if message := wrong(item); message != "" {
			return sdk.SettingError{Setting: setting, Message: fmt.Sprintf("%q %s", item, message)}
		}
		if slices.Contains(items[:i], item) {
			return sdk.SettingError{Setting: setting, Message: fmt.Sprintf("%q appears twice: remove one", item)}
		}
		for _, other := range items[:i] {
			if overlap != nil && overlap(other, item) {
				return sdk.SettingError{Setting: setting, Message: fmt.Sprintf("%q and %q overlap, so records may "+
					"come twice: leave one out, or read it with a separate pipeline", other, item)}
			}
		}
	}
	return nil
}
