package texttype

import (
	"time"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Zone returns the time zone called name, the value of a setting.
func Zone(setting, name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, sdk.SettingError{Setting: setting, Message: "must be a time zone such as Europe/Vienna or UTC, not " +
			Quoted(name)}
	}
	return zone, nil
}
