package http_test

import (
	"errors"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/http"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// A header setting with several lines is refused before any request is sent.
func TestHeadersHaveOneLine(t *testing.T) {
	for setting, value := range map[string]string{"auth.token": "secret\nX-Evil: 1", "headers.X-Key": "a\r\nb"} {
		s, d := http.Connector().NewSource(), http.Connector().NewDestination()
		for what, err := range map[string]error{
			"source": s.Configure(t.Context(),
				s.Parameters().ApplyDefaults(map[string]string{"url": "http://127.0.0.1:1", setting: value})),
			"destination": d.Configure(t.Context(),
				d.Parameters().ApplyDefaults(map[string]string{"url": "http://127.0.0.1:1", setting: value})),
		} {
			var wrong sdk.SettingError
			if !errors.As(err, &wrong) || wrong.Setting != setting {
				t.Errorf("%s with %s %q: %v", what, setting, value, err)
			}
		}
	}
}
