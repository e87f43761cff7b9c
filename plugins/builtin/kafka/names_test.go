package kafka_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/kafka"
)

// TestOwnNames checks that no two destinations share a transactional id or a positions topic, and that brokers accept
// all names.
func TestOwnNames(t *testing.T) {
	if id, topic := kafka.OwnNames("shop:out", false); id != "conduit-shop-out" || topic != "conduit-positions-shop-out" {
		t.Errorf("names of shop:out: %q, %q", id, topic)
	}
	taken := map[string]string{}
	for _, connector := range []string{"shop:out", "a:b:c", "a-b:c", "a:b-c", "a:b/c",
		strings.Repeat("a", 128) + ":b-c", strings.Repeat("a", 128) + ":b:c"} {
		id, topic := kafka.OwnNames(connector, false)
		for _, name := range []string{id, topic} {
			if !regexp.MustCompile(`^[a-zA-Z0-9._-]+$`).MatchString(name) || len(name) > 249 {
				t.Errorf("%s has the name %q", connector, name)
			}
			if other := taken[name]; other != "" {
				t.Errorf("%s and %s have the same name %q", connector, other, name)
			}
			taken[name] = connector
		}
	}
	for connector := range map[string]bool{"shop:out": true, "shop:out-replay": true} {
		id, topic := kafka.OwnNames(connector, true)
		if _, same := kafka.OwnNames(connector, false); taken[id] != "" || topic != same {
			t.Errorf("a replay to %s has the names %q, %q", connector, id, topic)
		}
		taken[id] = connector
	}
}
