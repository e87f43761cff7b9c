package redis_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/redis"
)

func TestSettings(t *testing.T) {
	for text, settings := range map[string]map[string]string{
		"must be redis://":          {"url": "http://x", "key": "a"},
		"set auth.username":         {"url": "redis://a:b@x", "key": "a"},
		"number of a database":      {"url": "redis://x/y", "key": "a"},
		"must be one key":           {"url": "redis://x", "key": "a,b"},
		`"processing": needs`:       {"url": "redis://x", "key": "a", "processing": "b"},
		"must differ from key":      {"url": "redis://x", "key": "a", "type": "list", "processing": "a"},
		`"field": needs type strea`: {"url": "redis://x", "key": "a", "type": "list", "field": "a"},
	} {
		s := &redis.Source{}
		if err := s.Configure(t.Context(), s.Parameters().ApplyDefaults(settings)); err == nil ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
	for text, more := range map[string]string{`"positionKey": needs`: "positionKey", `"maxLength": needs`: "maxLength",
		`"key"`: "key"} {
		d := &redis.Destination{}
		settings := map[string]string{"url": "redis://x", "key": "a", "type": "pubsub", more: "5"}
		if more == "key" {
			settings["key"] = "{{ .Nothing"
		}
		if err := d.Configure(t.Context(), d.Parameters().ApplyDefaults(settings)); err == nil ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
}
