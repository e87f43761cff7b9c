package kafka_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/kafka"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// produceRaw writes a batch with these bytes as its messages, compressed with a codec.
func (w *world) produceRaw(codec kgo.CompressionCodec, n int32, messages []byte) {
	w.Helper()
	c, err := kgo.DefaultCompressor(codec)
	if err != nil {
		w.Fatal(err)
	}
	var used kgo.CompressionCodecType
	if c != nil {
		messages, used = c.Compress(new(bytes.Buffer), messages)
	}
	w.produceBytes(used, n, messages)
}

// produceBytes writes a batch with these bytes after its header.
func (w *world) produceBytes(codec kgo.CompressionCodecType, n int32, p []byte) {
	w.Helper()
	b := kmsg.RecordBatch{Magic: 2, NumRecords: n, LastOffsetDelta: n - 1, ProducerID: -1, ProducerEpoch: -1,
		FirstSequence: -1, Attributes: int16(codec), Records: p, Length: int32(49 + len(p))}
	whole := b.AppendTo(nil)
	binary.BigEndian.PutUint32(whole[17:], crc32.Checksum(whole[21:], crc32.MakeTable(crc32.Castagnoli)))
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = w.topic, w.topicID()
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = whole
	t.Partitions = append(t.Partitions, partition)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(w.Context(), w.client)
	if err != nil {
		w.Fatal(err)
	}
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		w.Fatalf("a batch is refused: error %d", code)
	}
}

func (w *world) topicID() [16]byte {
	w.Helper()
	all, err := w.admin.ListTopics(w.Context(), w.topic)
	if err != nil {
		w.Fatal(err)
	}
	return all[w.topic].ID
}

// rawMessage returns a message without key and value, with encoded headers.
func rawMessage(announced int64, headers []byte) []byte {
	b := append(binary.AppendVarint([]byte{0, 0, 0, 1, 1}, announced), headers...)
	return append(binary.AppendVarint(nil, int64(len(b))), b...)
}

func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// TestManyTinyElements has batches with so many messages or headers that they exceed the memory, compressed and not.
// They are skipped before the memory is allocated, and the following batches are read.
func TestManyTinyElements(t *testing.T) {
	const budget, size = 64 << 20, 8 << 20
	k := server.StartKafka(t, server.KafkaOptions{Config: "message.max.bytes=20000000"})
	small := rawMessage(0, nil)
	for codecName, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		for name, c := range map[string]struct {
			n        int32
			messages []byte
		}{
			"headers":            {1, rawMessage(size/2, make([]byte, size))},
			"messages":           {size / 7, bytes.Repeat(small, size/7)},
			"announced headers":  {1, rawMessage(size, make([]byte, size))},
			"announced messages": {size, append(bytes.Clone(small), make([]byte, size)...)},
		} {
			t.Run(name+"/"+codecName, func(t *testing.T) {
				w := in(t, k.Addr, 1)
				w.produce(0, "before")
				w.produceRaw(codec, c.n, c.messages)
				w.produce(0, "behind")
				s := &source{world: w, Source: sdk.Standard(kafka.Connector()).NewSource(),
					ctx: w.env(w.topic + ":source")}
				w.Cleanup(s.close)
				sdk.EnvFrom(s.ctx).Budget = budget
				if err := s.Configure(s.ctx, w.settings()); err != nil {
					t.Fatal(err)
				}
				if err := s.Source.Open(s.ctx, nil); err != nil {
					t.Fatal(err)
				}
				before := allocated()
				s.want("before", "behind")
				if n := allocated() - before; n > 3*budget {
					t.Errorf("%d MiB were allocated, with a budget of %d", n>>20, budget>>20)
				}
				text := fmt.Sprint(s.Source.(sdk.Reporter).Progress().Skipped)
				reason := strings.Contains(text, "16 MiB") || strings.Contains(text, "malformed")
				if !strings.Contains(text, "offset 1") || !reason {
					t.Errorf("left out is %s", text)
				}
			})
		}
	}
}
