package kill_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/plugins/plugintest/server"
)

const kafkaRecords = 1_000_000

// BenchmarkKafka moves messages through a kfake with an agent, and with bare loops of the same client.
func BenchmarkKafka(b *testing.B) {
	runBenchmarks(b, kafkaRecords, []benchmark{{"producer", benchProducer}, {"file-to-kafka", benchToKafka}, {"consumer", benchConsumer}, {"kafka-to-file", func(b *testing.B) { benchFromKafka(b, "") }},
		{"kafka-to-lines", func(b *testing.B) { benchFromKafka(b, ", "+payloads) }}})
}

// startKfake starts a broker with the topic bench, which has messages if it is filled.
func startKfake(b *testing.B, filled bool) *server.Kafka {
	b.Helper()
	k := server.StartKafka(b, server.KafkaOptions{Topics: "bench:1"})
	if filled {
		produceBench(b, k)
	}
	return k
}

func benchClient(b *testing.B, k *server.Kafka, opts ...kgo.Opt) *kgo.Client {
	b.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(k.Addr))...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

func produceBench(b *testing.B, k *server.Kafka) {
	b.Helper()
	c := benchClient(b, k)
	var failed error
	for range kafkaRecords {
		c.Produce(b.Context(), &kgo.Record{Topic: "bench", Value: []byte(httpLine)}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed = err
			}
		})
	}
	if err := c.Flush(b.Context()); err != nil || failed != nil {
		b.Fatal(err, failed)
	}
}

func benchProducer(b *testing.B) {
	b.StopTimer()
	k := startKfake(b, false)
	b.StartTimer()
	produceBench(b, k)
}

func benchToKafka(b *testing.B) {
	b.StopTimer()
	k, dir := startKfake(b, false), agenttest.NewDir(b)
	writeLines(b, dir, kafkaRecords)
	admin := kadm.NewClient(benchClient(b, k))
	agentMoves(b, dir, fmt.Sprintf(`version: "2.2"
pipelines:
  - id: bench
    connectors:
      - {id: in, type: source, plugin: builtin:file, settings: {path: %s/in}}
      - {id: out, type: destination, plugin: builtin:kafka, settings: {servers: "%s", topic: bench, sdk.record.format: template, sdk.record.format.options: '{{ printf "%%s" .Payload.After }}'}}
`, dir, k.Addr), sometimes(func() bool {
		ends, err := admin.ListEndOffsets(context.Background(), "bench")
		end, _ := ends.Lookup("bench", 0)
		return err == nil && end.Offset >= kafkaRecords
	}))
}

func benchConsumer(b *testing.B) {
	b.StopTimer()
	k := startKfake(b, true)
	b.StartTimer()
	c := benchClient(b, k, kgo.ConsumeTopics("bench"), kgo.ConsumerGroup("bare"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for n := 0; n < kafkaRecords; {
		fetches := c.PollFetches(b.Context())
		if err := fetches.Err(); err != nil {
			b.Fatal(err)
		}
		n += fetches.NumRecords()
	}
}

func benchFromKafka(b *testing.B, format string) {
	b.StopTimer()
	k, dir := startKfake(b, true), agenttest.NewDir(b)
	agentMoves(b, dir, fmt.Sprintf(`version: "2.2"
pipelines:
  - id: bench
    connectors:
      - {id: in, type: source, plugin: builtin:kafka, settings: {servers: "%s", topics: bench, groupID: bench, readFromBeginning: 'true'}}
      - {id: out, type: destination, plugin: builtin:file, settings: {path: %s/out%s}}
`, k.Addr, dir, format), lines(dir+"/out", kafkaRecords))
}
