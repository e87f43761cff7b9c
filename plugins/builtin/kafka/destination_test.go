package kafka_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/plugins/builtin/kafka"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

var destinationTests = map[string]func(*world){
	"messages":                   checkMessages,
	"values of Conduit":          checkDefaults,
	"deletes":                    checkDeletes,
	"topics of records":          checkTopics,
	"a refused record":           checkRefused,
	"batches that are too large": checkLargeBatch,
	"no such partition":          checkNoPartition,
	"once":                       checkOnce,
	"once, refused":              checkOnceRefused,
	"once, pieces":               checkOncePieces,
	"once, two of them":          checkFenced,
	"once, many positions":       checkManyPositions,
}

func TestDestination(t *testing.T) { t.Parallel(); runAll(t, destinationTests) }

func checkMessages(w *world) {
	d := w.openDestination(plainValue(w.destinationSettings("headers", "true", "timestamp", "record", "partition", `{{ index .Metadata "kafka.partition" }}`)))
	r := one(1, "v")
	r.Metadata.Set("kafka.partition", "1")
	r.Metadata.Set("kafka.header.a", "x")
	r.Metadata.Set(record.KeyCreatedAt, "1700000000123000000")
	d.write(r)
	m := w.stored()[0]
	if m.Partition != 1 || string(m.Key) != "k" || string(m.Value) != "v" || m.Timestamp.UnixMilli() != 1700000000123 {
		w.Errorf("got partition %d, key %q, value %q, time %v", m.Partition, m.Key, m.Value, m.Timestamp)
	}
	if len(m.Headers) != 1 || m.Headers[0].Key != "a" || string(m.Headers[0].Value) != "x" {
		w.Errorf("got headers %v", m.Headers)
	}
}

// checkDefaults writes what Conduit's connector does when nothing is set: the whole record as JSON,
// its key as it is or as JSON, no headers; a delete is a message like the others.
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
	if n, err := d.Write(d.ctx, []record.Record{bad}); n != 0 || err == nil || !strings.Contains(err.Error(), "no topic can have that name") {
		w.Errorf("with a collection that is no topic: %d written: %v", n, err)
	}
	w.wantStored("a")
}

// checkRefused has one record of many refused, over two partitions: it is named exactly, and what
// was written behind it is not written again.
func checkRefused(w *world) {
	d := w.openDestination(plainValue(w.destinationSettings("partition", `{{ index .Metadata "p" }}`, "batchBytes", "2000", "compression", "none")))
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
	d.write(all[12:]...)
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

// checkLargeBatch writes batches that are larger than the topic takes, of messages that are not.
func checkLargeBatch(w *world) {
	value := "1000"
	if _, err := w.admin.AlterTopicConfigs(w.Context(), []kadm.AlterConfig{{Name: "max.message.bytes", Value: &value}}, w.topic); err != nil {
		w.Fatal(err)
	}
	d := w.openDestination(plainValue(w.destinationSettings("partition", "0", "compression", "none")))
	var all []record.Record
	for i := range 20 {
		all = append(all, one(i, strings.Repeat(string(rune('a'+i)), 200)))
	}
	all[5] = one(5, strings.Repeat("f", 2000))
	if n, err := d.Write(d.ctx, all); n != 5 || err == nil || !strings.Contains(err.Error(), "MESSAGE_TOO_LARGE") {
		w.Fatalf("%d written: %v", n, err)
	}
	d.write(all[6:]...)
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

// checkOnce writes records again with another instance, as after a restart: they are there once.
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
	settings := plainValue(w.destinationSettings("exactlyOnce", "true", "partition", "0", "batchBytes", "2000", "compression", "none"))
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

// checkOncePieces writes several records of one position, as processors make them, in two calls.
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
	if _, err := first.Write(first.ctx, []record.Record{one(3, "c")}); err == nil || !unavailable(err) || !strings.Contains(err.Error(), "another producer has taken over transactional id") {
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

func TestSettings(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"topic", "no topic", "topic is neither a valid static Kafka topic nor a valid Go template"},
		{"topic", "{{ nothing }}", "topic is neither a valid static Kafka topic nor a valid Go template"},
		{"saslUsername", "me", "invalid sasl auth, please specify both saslUsername and saslPassword"},
		{"saslMechanism", "OAUTHBEARER", "needs either saslToken or saslTokenURL"},
		{"exactlyOnce", "true", "needs acks: all"},
		{"caCert", "/etc/ca.pem", "has no certificate"},
		{"clientCert", "x", "could not configure client TLS"},
		{"acks", "some", "acks"},
	} {
		settings := map[string]string{"servers": "localhost:1", "tls.enabled": "true", "acks": "one", c.name: c.value}
		err := sdk.Standard(kafka.Connector()).NewDestination().Configure(context.Background(), settings)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: got %v, want %q", c.name, c.value, err, c.want)
		}
	}
}
