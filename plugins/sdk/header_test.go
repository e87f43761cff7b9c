package sdk_test

import (
	"errors"
	"testing"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

func TestCheckHeader(t *testing.T) {
	for value, good := range map[string]bool{"": true, "Bearer a.b-c==": true, "a\tb": true, "größe": true,
		"a\nX-Evil: 1": false, "a\r": false, "a\x00": false, "a\x7f": false} {
		err := sdk.CheckHeader("headers.X", value)
		var wrong sdk.SettingError
		if good != (err == nil) || !good && (!errors.As(err, &wrong) || wrong.Setting != "headers.X") {
			t.Errorf("%q: %v", value, err)
		}
	}
}
