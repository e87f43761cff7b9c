package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Token returns a current token of the source.
func Token(ctx context.Context, t *tokenSource) (string, error) { return t.token(ctx) }

// NewTokens returns a source of tokens.
func NewTokens(url, id, secret, scope string) *tokenSource {
	return &tokenSource{url: url, id: id, secret: secret, scope: scope}
}

// FirstMessage returns the first authentication message of a client with these settings.
func FirstMessage(ctx context.Context, values map[string]string) ([]byte, error) {
	var s destinationSettings
	if _, err := s.parse(values); err != nil {
		return nil, err
	}
	mechanism, err := s.mechanism()
	if err != nil {
		return nil, err
	}
	_, first, err := mechanism.Authenticate(ctx, "broker")
	return first, err
}

// OwnNames returns the default transactional id and positions topic of a destination.
func OwnNames(connectorID string, replay bool) (id, topic string) {
	o := newOnce(&destinationSettings{}, &sdk.Env{ConnectorID: connectorID, Replay: replay})
	return o.id, o.topic
}

// ArenaFields returns the number of metadata fields allocated per message of a fetch that begins with m.
func ArenaFields(m *kgo.Record) int { return arenaFields(m) }

// MetadataOf returns the metadata of the record of a message.
func MetadataOf(m *kgo.Record) record.Metadata {
	last := newLastMetadata(&partition{topicPartition: topicPartition{topic: "t"}})
	return last.metadata(m, record.NewArena(1, messageFields, 0))
}

// HeadersOf returns the headers of the message of a record.
func HeadersOf(m record.Metadata, mapped bool) []kgo.RecordHeader {
	var all []kgo.RecordHeader
	if mapped {
		all = headers(m)
	}
	return withTraceContext(all, m)
}
