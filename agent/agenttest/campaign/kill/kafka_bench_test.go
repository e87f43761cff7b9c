package kill_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
)

const kafkaRecords = 2_000_000

// BenchmarkKafka moves messages through a kfake with an agent, and with bare loops of the same client.
func BenchmarkKafka(b *testing.B) {
	producer := func(window int) func(b *testing.B) { return func(b *testing.B) { benchProducer(b, window) } }
	consumer := func(out, lines string) func(b *testing.B) {
		return func(b *testing.B) { benchConsumer(b, out, lines) }
	}
	runBenchmarks(b, kafkaRecords, []benchmark{{"producer", producer(0)},
		{"producer-with-window", producer(agentWindow)}, {"file-to-kafka", benchToKafka},
		{"consumer", consumer("", "")}, {"consumer-to-file", consumer("out", "records")},
		{"kafka-to-file", func(b *testing.B) { benchFromKafka(b, "") }},
		{"consumer-to-lines", consumer("out", "payloads")}, {"kafka-to-lines", func(b *testing.B) {
			benchFromKafka(b, ", "+payloads)
		}}})
}

// agentWindow is about how many of these messages an agent has in flight.
const agentWindow = 12_000

// startKfake starts a broker with the topic bench, which has messages if it is filled.
func startKfake(b *testing.B, filled bool) *server.Kafka {
	b.Helper()
	k := server.StartKafka(b, server.KafkaOptions{Topics: "bench:1"})
	if filled {
		produceBench(b, k)
	}
	return k
}

func benchClient(b *testing.B, k *server.Kafka) *kgo.Client {
	b.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(k.Addr))
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

func benchProducer(b *testing.B, window int) {
	b.StopTimer()
	k, dir := startKfake(b, false), b.TempDir()
	writeLines(b, dir, kafkaRecords)
	benchLoop(b, loopOf{Name: "producer", In: dir + "/in", Addr: k.Addr, Window: window})
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
      - {id: out, type: destination, plugin: builtin:kafka, settings: {servers: "%s", topic: bench,
         sdk.record.format: template, sdk.record.format.options: '{{ printf "%%s" .Payload.After }}'}}
`, dir, k.Addr), sometimes(func() bool {
		ends, err := admin.ListEndOffsets(context.Background(), "bench")
		end, _ := ends.Lookup("bench", 0)
		return err == nil && end.Offset >= kafkaRecords
	}))
}

// benchConsumer reads all messages with a bare loop, and writes them to the file out unless it has no name.
func benchConsumer(b *testing.B, out, lines string) {
	b.StopTimer()
	k := startKfake(b, true)
	if out != "" {
		out = filepath.Join(b.TempDir(), out)
	}
	benchLoop(b, loopOf{Name: "consumer", In: lines, Out: out, Addr: k.Addr})
}

func benchFromKafka(b *testing.B, format string) {
	b.StopTimer()
	k, dir := startKfake(b, true), agenttest.NewDir(b)
	agentMoves(b, dir, fmt.Sprintf(`version: "2.2"
pipelines:
  - id: bench
    connectors:
      - {id: in, type: source, plugin: builtin:kafka, settings: {servers: "%s", topics: bench, groupID: bench,
         readFromBeginning: 'true'}}
      - {id: out, type: destination, plugin: builtin:file, settings: {path: %s/out%s}}
`, k.Addr, dir, format), lines(dir+"/out", kafkaRecords))
}
