package kafka_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// TestBadItems skips batches that are too large or cannot be decoded, and reads the following ones; unusual but valid
// batches are read.
func TestBadItems(t *testing.T) {
	load.Parallel(t, load.Server)
	w := in(t, server.StartKafka(t, server.KafkaOptions{}).Addr, 1)
	client := w.newClient(kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.GzipCompression()), kgo.ProducerBatchMaxBytes(900_000),
		kgo.MaxBufferedBytes(100<<20))
	produce := func(records ...*kgo.Record) {
		for _, r := range records {
			r.Topic = w.topic
		}
		if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	message := func(value string) *kgo.Record { return &kgo.Record{Value: []byte(value)} }
	produce(message("one"))
	w.produceBytes(kgo.CodecGzip, 3, []byte("damaged"))
	produce(message("two"))
	odd := message("\xff\x00")
	odd.Key, odd.Headers = []byte("\xe9"), []kgo.RecordHeader{{Key: "\xe9", Value: []byte("\xff")},
		{Key: "", Value: nil}}
	produce(odd)
	produce(&kgo.Record{})
	produce(message("three"))
	s := w.open(w.settings(), nil)
	got := s.read(5)
	var all []string
	for i := range got {
		if _, err := record.AppendJSON(nil, &got[i]); err != nil {
			t.Error(err)
		}
		value, _ := got[i].After.Raw()
		all = append(all, string(value))
	}
	if text := fmt.Sprintf("%q", all); text != `["one" "two" "\xff\x00" "" "three"]` {
		t.Errorf("got %s", text)
	}
	skipped := s.Source.(sdk.Reporter).Progress().Skipped
	if len(skipped) != 3 || !strings.Contains(skipped[0].Error, "cannot decompress") ||
		!strings.HasSuffix(skipped[2].Of, "at offset 1") {
		t.Errorf("left out is %v", skipped)
	}
	s.ack(got[:1]...)
	s.close()
	if rest := w.open(w.settings(), got[0].Position).read(4); len(rest) != 4 {
		t.Errorf("behind the first %d records came", len(rest))
	}
}
