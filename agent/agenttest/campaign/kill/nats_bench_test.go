package kill_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
)

const natsRecords = 100_000

// BenchmarkNATS moves messages of a stream with an agent, and with a bare loop of the same client.
func BenchmarkNATS(b *testing.B) {
	for _, one := range []struct {
		name string
		run  func(b *testing.B, s *natsSystem, js jetstream.JetStream)
	}{
		{"consumer", benchConsume}, {"nats-to-file", benchFromNATS},
		{"publisher", benchPublishNATS}, {"file-to-nats", benchToNATS},
	} {
		b.Run(one.name, func(b *testing.B) {
			// A server that syncs every message would measure the disk.
			s := startNATS(b, b.TempDir(), fmt.Sprintf("jetstream: {store_dir: %q}", server.Dir(b)))
			c, err := s.connect()
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			js, err := jetstream.New(c, jetstream.WithPublishAsyncMaxPending(1000),
				jetstream.WithPublishAsyncTimeout(time.Minute))
			if err != nil {
				b.Fatal(err)
			}
			for range b.N {
				one.run(b, s, js)
			}
			report(b, natsRecords)
		})
	}
}

func benchPublishNATS(b *testing.B, _ *natsSystem, js jetstream.JetStream) {
	for range natsRecords {
		if _, err := js.PublishAsync("ledger", []byte(httpLine), jetstream.WithStallWait(time.Minute)); err != nil {
			b.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
}

func benchConsume(b *testing.B, s *natsSystem, js jetstream.JetStream) {
	b.StopTimer()
	benchPublishNATS(b, s, js)
	b.StartTimer()
	c, err := js.CreateConsumer(b.Context(), "LEDGER",
		jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 5000})
	if err != nil {
		b.Fatal(err)
	}
	messages, err := c.Messages()
	if err != nil {
		b.Fatal(err)
	}
	defer messages.Stop()
	for range natsRecords {
		m, err := messages.Next()
		if err == nil {
			err = m.Ack()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func benchFromNATS(b *testing.B, s *natsSystem, js jetstream.JetStream) {
	b.StopTimer()
	benchPublishNATS(b, s, js)
	dir := agenttest.NewDir(b)
	agentMoves(b, dir, fmt.Sprintf(`version: "2.2"
pipelines:
  - id: bench
    connectors:
      - {id: in, type: source, plugin: builtin:nats, settings: {url: "%s", stream: LEDGER, auth.username: conduit,
         auth.password: word-0}}
      - {id: out, type: destination, plugin: builtin:file, settings: {path: %s/out}}
`, s.URL(), dir), lines(dir+"/out", natsRecords))
}

func benchToNATS(b *testing.B, s *natsSystem, js jetstream.JetStream) {
	b.StopTimer()
	dir := agenttest.NewDir(b)
	if err := os.WriteFile(dir+"/in", []byte(strings.Repeat(httpLine+"\n", natsRecords)), 0o600); err != nil {
		b.Fatal(err)
	}
	agentMoves(b, dir, fmt.Sprintf(`version: "2.2"
pipelines:
  - id: bench
    connectors:
      - {id: in, type: source, plugin: builtin:file, settings: {path: %s/in}}
      - {id: out, type: destination, plugin: builtin:nats, settings: {url: "%s", subject: ledger,
         auth.username: conduit, auth.password: word-0,
          sdk.record.format: template, sdk.record.format.options: '{{ printf "%%s" .Payload.After }}'}}
`, dir, s.URL()), func() bool {
		stream, err := js.Stream(context.Background(), "LEDGER")
		return err == nil && stream.CachedInfo().State.Msgs >= natsRecords
	})
}
