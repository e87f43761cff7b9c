package kafka_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

var destinationTests = map[string]func(*world){
	"messages":                   checkMessages,
	"values of Conduit":          checkDefaults,
	"deletes":                    checkDeletes,
	"acks and compression":       checkAcks,
	"topics of records":          checkTopics,
	"a refused record":           checkRefused,
	"writes that overlap":        checkOverlap,
	"overlapping large batches":  checkLargeOverlap,
	"batches that are too large": checkLargeBatch,
	"no such partition":          checkNoPartition,
	"once":                       checkOnce,
	"once, refused":              checkOnceRefused,
	"once, pieces":               checkOncePieces,
	"once, two of them":          checkFenced,
	"once, many positions":       checkManyPositions,
}

func TestDestination(t *testing.T) { load.Parallel(t, load.Server); runAll(t, destinationTests) }

func checkMessages(w *world) {
	d := w.openDestination(plainValue(w.destinationSettings("headers", "true", "timestamp", "record", "partition",
		`{{ index .Metadata "kafka.partition" }}`)))
	r := one(1, "v")
	r.Metadata.Set("kafka.partition", "1")
	r.Metadata.Set("kafka.header.a", "x")
	r.Metadata.Set("kafka.header.a[1]", "y")
	r.Metadata.Set(record.KeyCreatedAt, "1700000000123000000")
	d.write(r)
	m := w.stored()[0]
	if m.Partition != 1 || string(m.Key) != "k" || string(m.Value) != "v" || m.Timestamp.UnixMilli() != 1700000000123 {
		w.Errorf("got partition %d, key %q, value %q, time %v", m.Partition, m.Key, m.Value, m.Timestamp)
	}
	if got := fmt.Sprintf("%s", m.Headers); got != "[{a x} {a y}]" {
		w.Errorf("got headers %s", got)
	}
}

// checkDefaults writes like Conduit's connector with default settings: the whole record as JSON, its key unchanged or
// as JSON, no headers; a delete is a message like the others.
func checkDefaults(w *world) {
	d := w.openDestination(w.destinationSettings())
	r := one(1, "v")
	r.Metadata.Set("kafka.header.a", "x")
	r.Key = record.Structured(map[string]any{"id": 7})
	gone := one(2, "")
	gone.Operation, gone.After, gone.Key = record.OperationDelete, record.Data{}, record.Data{}
	d.write(r, gone)
	all := map[string]*kgo.Record{}
	for _, m := range w.stored() {
		all[string(m.Key)] = m
	}
	want, _ := record.AppendJSON(nil, &r)
	if m := all[`{"id":7}`]; m == nil || string(m.Value) != string(want) || len(m.Headers) != 0 {
		w.Errorf("got %v, want the record as JSON: %s", m, want)
	}
	want, _ = record.AppendJSON(nil, &gone)
	if m := all[""]; m == nil || m.Key != nil || string(m.Value) != string(want) {
		w.Errorf("got %v, want the delete as JSON: %s", m, want)
	}
}

// checkAcks writes with each acknowledgement and compression setting.
func checkAcks(w *world) {
	codecs := map[string]uint8{"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4} // in the attributes of a batch
	for acks, compressions := range map[string][]string{"none": {"none"}, "one": {"gzip"},
		"all": {"snappy", "lz4", "zstd"}} {
		for _, compression := range compressions {
			w.openDestination(plainValue(w.destinationSettings("acks", acks, "compression", compression, "partition",
				"0"))).write(one(1, compression+strings.Repeat(" ", 1000)))
		}
	}
	wait.For(w, "all messages", func() bool { return len(w.stored()) == len(codecs) })
	for _, m := range w.stored() {
		name := strings.TrimSpace(string(m.Value))
		if codec, known := codecs[name]; !known || m.Attrs.CompressionType() != codec {
			w.Errorf("a message of %q has the codec %d", name, m.Attrs.CompressionType())
		}
	}
}

func checkDeletes(w *world) {
	d := w.openDestination(w.destinationSettings("tombstones", "true"))
	r := one(1, "")
	r.Operation = record.OperationDelete
	d.write(r)
	if m := w.stored()[0]; string(m.Key) != "k" || m.Value != nil {
		w.Errorf("got key %q, value %q", m.Key, m.Value)
	}
}

func checkTopics(w *world) {
	settings := plainValue(w.destinationSettings())
	delete(settings, "topic")
	d := w.openDestination(settings)
	good, bad := one(1, "a"), one(2, "b")
	good.Metadata.Set(record.KeyCollection, w.topic)
	n, err := d.Write(d.ctx, []record.Record{good, bad})
	if n != 1 || err == nil || !strings.Contains(err.Error(), "topic not found on record") {
		w.Errorf("without collection: %d written: %v", n, err)
	}
	bad.Metadata.Set(record.KeyCollection, "no/topic")
	if n, err := d.Write(d.ctx, []record.Record{bad}); n != 0 || err == nil ||
		!strings.Contains(err.Error(), "the name is invalid") {
		w.Errorf("with a collection that is no topic: %d written: %v", n, err)
	}
	w.wantStored("a")
}

// writeAgain writes the records after a refused one, as the agent does after a batch.
func (d *destination) writeAgain(records []record.Record) {
	d.Helper()
	if n, err := d.Write(d.ctx, records); err != nil || n != len(records) {
		d.Fatalf("%d of %d records written: %v", n, len(records), err)
	}
}

// checkRefused refuses one record of many, in two partitions: the error names exactly that record, and later records
// that are already written are not written again.
func checkRefused(w *world) {
	d := w.openDestination(plainValue(w.destinationSettings("partition", `{{ index .Metadata "p" }}`, "batchBytes",
		"2000", "compression", "none")))
	var all []record.Record
	for i := range 40 {
		value := fmt.Sprintf("%02d", i)
		if i == 11 {
			value = strings.Repeat("x", 4000)
		}
		r := one(i, value)
		r.Metadata.Set("p", fmt.Sprint(i%2))
		all = append(all, r)
	}
	n, err := d.Write(d.ctx, all)
	if n != 11 || err == nil || !strings.Contains(err.Error(), "MESSAGE_TOO_LARGE") {
		w.Fatalf("%d written: %v", n, err)
	}
	d.writeAgain(all[12:])
	seen := map[string]int{}
	for _, m := range w.stored() {
		seen[string(m.Value)]++
	}
	for i := range 40 {
		want := 1
		if i == 11 {
			want = 0
		}
		if v := fmt.Sprintf("%02d", i); seen[v] != want {
			w.Errorf("%s is there %d times", v, seen[v])
		}
	}
}

// overlap starts each write before the previous ones are complete, and returns the outcomes: "+" and the number of
// records for a write, "-" for a refused record.
func (d *destination) overlap(batches ...[]record.Record) (settled string) {
	d.Helper()
	async := d.Destination.(sdk.AsyncDestination)
	for _, b := range batches {
		if err := async.WriteAsync(d.ctx, b, func(n int, err error) {
			if err != nil {
				settled += "-"
				return
			}
			settled += fmt.Sprint("+", n)
		}); err != nil {
			d.Fatal(err)
		}
	}
	if err := async.Flush(d.ctx); err != nil {
		d.Fatal(err)
	}
	return settled
}

// checkOverlap refuses one message of many in overlapping writes: the others are written once, in order.
func checkOverlap(w *world) {
	d := w.openDestination(plainValue(w.destinationSettings("partition", `{{ index .Metadata "p" }}`, "batchBytes",
		"2000", "compression", "none")))
	var batches [][]record.Record
	var want []string
	for i := range 20 {
		var b []record.Record
		for j := range 3 {
			value, partition := fmt.Sprintf("%02d.%d", i, j), "0"
			switch {
			case i == 5 && j == 1:
				value = strings.Repeat("x", 4000) // the broker refuses it
			case i == 9 && j == 0:
				partition = "none" // not a number
			default:
				want = append(want, value)
			}
			r := one(3*i+j, value)
			r.Metadata.Set("p", partition)
			b = append(b, r)
		}
		batches = append(batches, b)
	}
	if got, want := d.overlap(batches...), strings.Repeat("+3", 5)+"+1-+1"+strings.Repeat("+3", 3)+"-+2"+
		strings.Repeat("+3", 10); got != want {
		w.Errorf("settled %s, want %s", got, want)
	}
	w.wantStored(want...)
}

// checkLargeOverlap writes batches that exceed the limit of the topic: messages of later writes stay behind those of
// earlier writes.
func checkLargeOverlap(w *world) {
	w.limitMessages("1000")
	// The client makes a batch of ten records, and adds no more to it.
	d := w.openDestination(plainValue(w.destinationSettings("partition", "0", "compression", "none", "batchBytes",
		"2300")))
	batch := func(from, n int) (b []record.Record) {
		for i := range n {
			b = append(b, one(from+i, fmt.Sprintf("%04d", from+i)+strings.Repeat("x", 200)))
		}
		return b
	}
	first := batch(0, 10)
	if got := d.overlap(first); got != "+10" {
		w.Fatalf("settled %s", got)
	}
	before := len(w.stored())
	if got := d.overlap(batch(200, 10), batch(300, 3)); got != "+10+3" {
		w.Fatalf("settled %s", got)
	}
	last := ""
	for _, m := range w.stored()[before:] {
		batch := string(m.Value[:2])
		if batch < last {
			w.Errorf("a message of write %s came behind one of write %s", batch, last)
		}
		last = batch
	}
}

// limitMessages sets the limit of the topic in bytes per batch of messages.
func (w *world) limitMessages(bytes string) {
	w.Helper()
	if _, err := w.admin.AlterTopicConfigs(w.Context(), []kadm.AlterConfig{{Name: "max.message.bytes", Value: &bytes}},
		w.topic); err != nil {
		w.Fatal(err)
	}
}

// checkLargeBatch writes batches that exceed the limit of the topic, although their messages do not.
func checkLargeBatch(w *world) {
	w.limitMessages("1000")
	d := w.openDestination(plainValue(w.destinationSettings("partition", "0", "compression", "none")))
	var all []record.Record
	for i := range 20 {
		all = append(all, one(i, strings.Repeat(string(rune('a'+i)), 200)))
	}
	all[5] = one(5, strings.Repeat("f", 2000))
	if n, err := d.Write(d.ctx, all); n != 5 || err == nil || !strings.Contains(err.Error(), "MESSAGE_TOO_LARGE") {
		w.Fatalf("%d written: %v", n, err)
	}
	d.writeAgain(all[6:])
	if got := len(w.stored()); got != 19 {
		w.Errorf("%d messages are there, want 19", got)
	}
}

func checkNoPartition(w *world) {
	d := w.openDestination(plainValue(w.destinationSettings("partition", "7")))
	if n, err := d.Write(d.ctx, []record.Record{one(1, "a")}); n != 0 || err == nil || unavailable(err) {
		w.Errorf("%d written: %v", n, err)
	}
}

func unavailable(err error) bool {
	_, ok := err.(interface{ Lost() bool })
	return ok
}

// checkOnce writes records again with another instance, as after a restart: the topic has each once.
func checkOnce(w *world) {
	settings := plainValue(w.destinationSettings("exactlyOnce", "true", "partition", "0"))
	d := w.openDestination(settings)
	d.write(one(1, "a"), one(2, "b"))
	d.write(one(3, "c"))
	d = w.openDestination(settings)
	d.write(one(2, "b"), one(3, "c"), one(4, "d"))
	other := one(1, "e")
	other.Metadata.Set(record.KeySourceConnectorID, "p:other")
	d.write(other)
	w.wantStored("a", "b", "c", "d", "e")
	if err := d.LifecycleOnDeleted(d.ctx, settings); err != nil {
		w.Fatal(err)
	}
	w.openDestination(settings).write(one(1, "again"))
	w.wantStored("a", "b", "c", "d", "e", "again")
}

func checkOnceRefused(w *world) {
	settings := plainValue(w.destinationSettings("exactlyOnce", "true", "partition", "0", "batchBytes", "2000",
		"compression", "none"))
	d := w.openDestination(settings)
	all := []record.Record{one(1, "a"), one(2, "b"), one(3, strings.Repeat("x", 4000)), one(4, "d")}
	if n, err := d.Write(d.ctx, all); n != 2 || err == nil || unavailable(err) {
		w.Fatalf("%d written: %v", n, err)
	}
	w.wantStored("a", "b")
	d.write(all[3])
	w.openDestination(settings).write(all[0], all[1], all[3])
	w.wantStored("a", "b", "d")
}

// checkOncePieces writes several records with the same position, as processors create them, in two calls.
func checkOncePieces(w *world) {
	settings := plainValue(w.destinationSettings("exactlyOnce", "true", "partition", "0"))
	d := w.openDestination(settings)
	d.write(one(1, "a1"), one(1, "a2"))
	d.write(one(1, "a3"), one(2, "b"))
	w.openDestination(settings).write(one(1, "a1"), one(1, "a2"), one(1, "a3"), one(1, "a4"), one(2, "b"))
	w.wantStored("a1", "a2", "a3", "b", "a4")
}

func checkFenced(w *world) {
	settings := plainValue(w.destinationSettings("exactlyOnce", "true", "partition", "0"))
	first := w.openDestination(settings)
	first.write(one(1, "a"))
	w.openDestination(settings).write(one(2, "b"))
	if _, err := first.Write(first.ctx, []record.Record{one(3, "c")}); err == nil || !unavailable(err) ||
		!strings.Contains(err.Error(), "another producer uses transactional id") {
		w.Errorf("got %v", err)
	}
	w.wantStored("a", "b")
}

// checkManyPositions reads more positions than the first fetch asks for.
func checkManyPositions(w *world) {
	settings := plainValue(w.destinationSettings("exactlyOnce", "true", "partition", "0"))
	d := w.openDestination(settings)
	var all []record.Record
	for i := range 400 {
		all = append(all, one(i, fmt.Sprint(i)))
		d.write(all[i])
	}
	w.openDestination(settings).write(all...)
	if got := len(w.stored()); got != len(all) {
		w.Errorf("%d messages are there, want %d", got, len(all))
	}
}
