package nats_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/nats"
)

// TestSettings checks the errors for invalid settings.
func TestSettings(t *testing.T) {
	for wanted, set := range map[string]map[string]string{
		`"url": must be`:       {"url": "http://a", "stream": "S"},
		`"url": must not hold`: {"url": "nats://u:p@a", "stream": "S"},
		`"stream": is`:         {"url": "nats://a"},
		`"subjects": is`:       {"url": "nats://a", "type": "core"},
		`"queue": needs`:       {"url": "nats://a", "stream": "S", "queue": "q"},
		`"auth.nkey": must`:    {"url": "nats://a", "stream": "S", "auth.nkey": "x"},
	} {
		if err := (&nats.Source{}).Configure(t.Context(), set); err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("%v: got %v, want %s", set, err, wanted)
		}
	}
	for _, subject := range []string{"a.>", "a b", "{{", ".a"} {
		if err := (&nats.Destination{}).Configure(t.Context(), map[string]string{"url": "nats://a",
			"subject": subject}); err == nil || !strings.Contains(err.Error(), `"subject"`) {
			t.Errorf("subject %s: got %v", subject, err)
		}
	}
}
