package kafka_test

import (
	"context"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/plugins/builtin/kafka"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// TestHeadersOfTheFirstMessage checks that a message with very many headers does not reserve memory for as many in each
// message fetched with it.
func TestHeadersOfTheFirstMessage(t *testing.T) {
	t.Parallel()
	for headers, want := range map[int]int{0: 6, 3: 9, 100_000: 22} {
		if n := kafka.ArenaFields(&kgo.Record{Headers: make([]kgo.RecordHeader, headers)}); n != want {
			t.Errorf("%d headers: %d fields for each message, want %d", headers, n, want)
		}
	}
}

func TestSettings(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"topic", "is not a topic name", "topic is neither a valid static Kafka topic nor a valid Go template"},
		{"topic", strings.Repeat("x", 250), "topic is neither a valid static Kafka topic nor a valid Go template"},
		{"topic", "{{ nothing }}", `there is no function "nothing"`},
		{"saslUsername", "me", "invalid sasl auth, please specify both saslUsername and saslPassword"},
		{"saslMechanism", "OAUTHBEARER", "needs either saslToken or saslTokenURL"},
		{"exactlyOnce", "true", "needs acks: all"},
		{"caCert", "/etc/ca.pem", "has no certificate"},
		{"clientCert", "x", "cannot configure client TLS"},
		{"acks", "some", "acks"},
	} {
		settings := map[string]string{"servers": "localhost:1", "tls.enabled": "true", "acks": "one", c.name: c.value}
		err := sdk.Standard(kafka.Connector()).NewDestination().Configure(context.Background(), settings)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: got %v, want %q", c.name, c.value, err, c.want)
		}
	}
	longest := map[string]string{"servers": "localhost:1", "topic": strings.Repeat("a.B_-9", 42)[:249]}
	if err := sdk.Standard(kafka.Connector()).NewDestination().Configure(context.Background(), longest); err != nil {
		t.Errorf("the longest name of a topic: %v", err)
	}
}
