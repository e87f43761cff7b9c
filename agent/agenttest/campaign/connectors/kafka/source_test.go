package kafka_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/plugins/builtin/kafka"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

var sourceTests = map[string]func(*world){
	"records":                         checkRecords,
	"tombstones":                      checkTombstones,
	"position without group":          checkPosition,
	"position of Conduit":             checkConduitPosition,
	"another group":                   checkAnotherGroup,
	"group of its own":                checkOwnGroup,
	"offsets of the group":            checkCommit,
	"offsets after so many":           checkCommitSize,
	"a group that cannot be joined":   checkJoin,
	"what is outstanding":             checkInFlight,
	"aborted transactions":            checkAborted,
	"beginning at the end":            checkEnd,
	"partitions added":                checkAdded,
	"removed before they were read":   checkGap,
	"removed, going on":               checkGapContinue,
	"a topic that was recreated":      checkRecreated,
	"a second member":                 checkRebalance,
	"fetched, and then of another":    checkFetched,
	"lag":                             checkLag,
	"a batch that expands":            checkExpands,
	"a group removed with its source": checkCleanup,
}

func TestSource(t *testing.T) { load.Parallel(t, load.Server); runAll(t, sourceTests) }

func checkRecords(w *world) {
	m := &kgo.Record{Topic: w.topic, Partition: 1, Key: []byte("key"), Value: []byte("value"),
		Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")}}}
	if err := w.client.ProduceSync(w.Context(), m).FirstErr(); err != nil {
		w.Fatal(err)
	}
	r := w.open(w.settings(), nil).want("value")[0]
	key, _ := r.Key.Raw()
	millis := m.Timestamp.UnixMilli()
	want := map[string]string{
		"opencdc.collection": w.topic,
		"kafka.header.a":     "1",
		"kafka.header.a[1]":  "2",
		"kafka.topic":        w.topic,
		"kafka.partition":    "1",
		"kafka.offset":       "0",
		"kafka.timestamp":    fmt.Sprint(millis),
		"opencdc.createdAt":  fmt.Sprint(millis * 1e6),
	}
	for name, value := range want {
		if got := r.Metadata.Get(name); got != value {
			w.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	if string(key) != "key" || r.Operation != record.OperationCreate || !r.Before.IsNone() {
		w.Errorf("got key %q, %v, before %v", key, r.Operation, r.Before)
	}
}

func checkTombstones(w *world) {
	if err := w.client.ProduceSync(w.Context(), &kgo.Record{Topic: w.topic, Key: []byte("gone")}).FirstErr(); err !=
		nil {
		w.Fatal(err)
	}
	for setting, want := range map[string]record.Operation{"false": record.OperationCreate,
		"true": record.OperationDelete} {
		s := w.open(w.settings("tombstones", setting, "groupID", w.topic+setting), nil)
		if r := s.read(1)[0]; r.Operation != want || !r.After.IsNone() {
			w.Errorf("tombstones: %s: got %v with %v, want %v with nothing", setting, r.Operation, r.After, want)
		}
	}
}

// checkPosition resumes without a group: each partition after the last record that was read.
func checkPosition(w *world) {
	w.produce(0, "a", "b")
	w.produce(1, "c", "d", "e")
	s := w.open(w.settings(), nil)
	all := s.read(5)
	s.close()
	w.produce(0, "f")
	w.produce(1, "g")
	at := len(all) - 2 // one partition lacks its last record
	if _, err := w.admin.DeleteGroup(w.Context(), w.topic); err != nil {
		w.Fatal(err)
	}
	got := w.open(w.settings("readFromBeginning", "false"), all[at].Position).read(3)
	seen := map[string]int{}
	for _, v := range append(show(all[:at+1]), show(got)...) {
		seen[v]++
	}
	for _, v := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		if seen[v] != 1 {
			w.Errorf("%s came %d times", v, seen[v])
		}
	}
}

// checkConduitPosition resumes from a position that has a single partition's offset.
func checkConduitPosition(w *world) {
	w.produce(0, "a", "b", "c")
	pos := fmt.Sprintf(`{"GroupID":"%s","Topic":"%s","Partition":0,"Offset":1}`, w.topic, w.topic)
	r := w.open(w.settings("readFromBeginning", "false"), record.Position(pos)).want("c")[0]
	var p struct {
		GroupID, Topic    string
		Partition, Offset int
	}
	if err := json.Unmarshal(r.Position, &p); err != nil || p.GroupID != w.topic || p.Topic != w.topic ||
		p.Partition != 0 || p.Offset != 2 {
		w.Errorf("the position is %s: %v", r.Position, err)
	}
}

func checkAnotherGroup(w *world) {
	pos := fmt.Sprintf(`{"GroupID":"former","Topic":"%s","Partition":0,"Offset":1}`, w.topic)
	if _, err := w.tryOpen(w.settings(), record.Position(pos)); err == nil || !strings.Contains(err.Error(),
		"the old position contains a different consumer group ID than the connector configuration") {
		w.Errorf("got %v", err)
	}
	if _, err := w.tryOpen(w.settings(), record.Position("17")); err == nil ||
		!strings.Contains(err.Error(), "not a position of kafka") {
		w.Errorf("with a position of another connector: %v", err)
	}
}

func checkOwnGroup(w *world) {
	w.produce(0, "a")
	s := w.open(w.settings("groupID", ""), nil)
	first := s.want("a")[0]
	s.close()
	w.produce(0, "b")
	second := w.open(w.settings("groupID", ""), first.Position).want("b")[0]
	group := func(r record.Record) (p struct{ GroupID string }) { _ = json.Unmarshal(r.Position, &p); return p }
	if a, b := group(first), group(second); a != b || len(a.GroupID) != 36 {
		w.Errorf("the group was %v and is %v", a, b)
	}
}

// checkCommit acknowledges some records: the group has their offsets, and a source without a position resumes from
// there.
func checkCommit(w *world) {
	w.produce(0, "a", "b", "c")
	s := w.open(w.settings(), nil)
	all := s.want("a", "b", "c")
	s.ack(all[:2]...)
	wait.For(w, "the offset is committed", func() bool { return w.committed(0) == 2 })
	s.close()
	w.open(w.settings(), nil).want("c")
}

// checkCommitSize acknowledges as many records as are committed at once, long before the next periodic commit.
func checkCommitSize(w *world) {
	w.produce(0, "a", "b", "c")
	s := w.open(w.settings("commitOffsetsSize", "2", "commitOffsetsDelay", "1h"), nil)
	all := s.want("a", "b", "c")
	s.ack(all[:2]...)
	wait.For(w, "the offset is committed", func() bool { return w.committed(0) == 2 })
}

// checkJoin makes the broker refuse the member: joining is retried, unless the settings say to fail.
func checkJoin(w *world) {
	refused := []string{"sessionTimeout", "24h", "retryGroupJoinErrors"}
	if err := w.open(w.settings(append(refused, "false")...), nil).fails(); !strings.Contains(err.Error(),
		"unable to join group session") || !unavailable(err) {
		w.Errorf("without another try: %v", err)
	}
	ctx, cancel := context.WithTimeout(w.Context(), 2*time.Second)
	defer cancel()
	if _, err := w.open(w.settings(append(refused, "true")...), nil).Read(ctx); !errors.Is(err,
		context.DeadlineExceeded) {
		w.Errorf("with another try: %v", err)
	}
}

// checkInFlight acknowledges nothing: the committed offset of the group stays where reading began.
func checkInFlight(w *world) {
	w.produce(0, "a", "b")
	s := w.open(w.settings(), nil)
	all := s.want("a", "b")
	wait.For(w, "the beginning is committed", func() bool { return w.committed(0) == 0 })
	s.close()
	if at := w.committed(0); at != 0 {
		w.Errorf("the group is at %d", at)
	}
	s = w.open(w.settings(), nil)
	s.want("a", "b")
	s.ack(all...)
	s.close()
	if at := w.committed(0); at != 2 {
		w.Errorf("the group is at %d after it was left", at)
	}
}

func checkAborted(w *world) {
	producer := w.newClient(kgo.TransactionalID(w.topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for value, end := range map[string]kgo.TransactionEndTry{"aborted": kgo.TryAbort, "committed": kgo.TryCommit} {
		if err := producer.BeginTransaction(); err != nil {
			w.Fatal(err)
		}
		if err := producer.ProduceSync(w.Context(),
			&kgo.Record{Topic: w.topic, Value: []byte(value)}).FirstErr(); err != nil {
			w.Fatal(err)
		}
		if err := producer.EndTransaction(w.Context(), end); err != nil {
			w.Fatal(err)
		}
	}
	w.produce(0, "plain")
	s := w.open(w.settings(), nil)
	s.ack(s.want("committed", "plain")...)
	wait.For(w, "nothing is behind", func() bool { p := s.progress(); return p.Records != nil && *p.Records == 0 })
}

// checkEnd starts with future messages, also when the source was stopped before any message arrived.
func checkEnd(w *world) {
	w.produce(0, "old")
	s := w.open(w.settings("readFromBeginning", "false"), nil)
	wait.For(w, "the end is committed", func() bool { return w.committed(0) == 1 && w.committed(1) == 0 })
	s.close()
	w.produce(0, "a")
	w.produce(1, "b")
	if got := len(w.open(w.settings("readFromBeginning", "false"), nil).read(2)); got != 2 {
		w.Errorf("got %d records", got)
	}
}

func checkAdded(w *world) {
	s := w.open(w.settings("readFromBeginning", "false"), nil)
	wait.For(w, "the end is committed", func() bool { return w.committed(0) == 0 && w.committed(1) == 0 })
	w.produce(0, "a")
	first := s.want("a")
	s.close()
	if _, err := w.admin.UpdatePartitions(w.Context(), 3, w.topic); err != nil {
		w.Fatal(err)
	}
	producer := w.newClient(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	wait.For(w, "the partition can be written to", func() bool {
		return producer.ProduceSync(w.Context(),
			&kgo.Record{Topic: w.topic, Partition: 2, Value: []byte("b")}).FirstErr() == nil
	})
	w.open(w.settings("readFromBeginning", "false"), first[0].Position).want("b")
}

// remove removes the messages before an offset, as retention does.
func (w *world) remove(partition int32, before int64) {
	w.Helper()
	var o kadm.Offsets
	o.Add(kadm.Offset{Topic: w.topic, Partition: partition, At: before})
	answers, err := w.admin.DeleteRecords(w.Context(), o)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		w.Fatal(err)
	}
}

// checkGap removes messages after the position: the source names them each time it is opened.
func checkGap(w *world) {
	w.produce(0, "a", "b", "c", "d")
	s := w.open(w.settings(), nil)
	all := s.want("a", "b", "c", "d")
	s.ack(all[0])
	s.close()
	w.remove(0, 3)
	for range 2 {
		s = w.open(w.settings(), all[0].Position)
		err := s.fails()
		want := fmt.Sprintf("2 messages of partition 0 of topic %q were removed before they were read: offsets 1 to "+
			"2, and the oldest offset is now 3", w.topic)
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "set gap to continue") {
			w.Fatalf("got %v", err)
		}
		s.close()
	}
	if at := w.committed(0); at != 1 {
		w.Errorf("the group is at %d: what is missing counts as read", at)
	}
}

func checkGapContinue(w *world) {
	w.produce(0, "a", "b", "c", "d")
	s := w.open(w.settings(), nil)
	all := s.want("a", "b", "c", "d")
	s.close()
	w.remove(0, 3)
	s = w.open(w.settings("gap", "continue"), all[0].Position)
	s.want("d")
	s.leavesOut("from offset 1", "2 messages of partition 0")
}

// leavesOut checks that the status names missing messages.
func (s *source) leavesOut(missing, why string) {
	s.Helper()
	text := fmt.Sprint(s.Source.(sdk.Reporter).Progress().Skipped)
	if !strings.Contains(text, missing) || !strings.Contains(text, why) {
		s.Errorf("left out: %s, want %s: %s", text, missing, why)
	}
}

func checkRecreated(w *world) {
	w.produce(0, "a", "b", "c")
	s := w.open(w.settings(), nil)
	all := s.want("a", "b", "c")
	s.close()
	w.recreate()
	s = w.open(w.settings(), all[2].Position)
	err := s.fails()
	s.close()
	if want := "was recreated"; !strings.Contains(err.Error(), want) {
		w.Errorf("got %v", err)
	}
	w.produce(0, "u", "v", "w", "x", "y") // more than were read before
	s = w.open(w.settings(), all[2].Position)
	err = s.fails()
	s.close()
	if want := "was recreated"; !strings.Contains(err.Error(), want) {
		w.Errorf("once it has as many messages: %v", err)
	}
	s = w.open(w.settings("gap", "continue"), all[2].Position)
	all = s.want("u", "v", "w", "x", "y")
	s.leavesOut("messages of topic "+w.topic, "was recreated")
	s.close()
	w.produce(0, "z")
	w.open(w.settings(), all[4].Position).want("z")
}

// recreate deletes the topic and creates it again.
func (w *world) recreate() {
	w.Helper()
	if _, err := w.admin.DeleteTopic(w.Context(), w.topic); err != nil {
		w.Fatal(err)
	}
	wait.For(w, "the topic is there again", func() bool {
		_, err := w.admin.CreateTopic(w.Context(), 2, 1, nil, w.topic)
		return err == nil
	})
	w.client = w.newClient(kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

// checkRebalance moves a partition to a second member, after the records that the first member read from it are
// acknowledged: none is repeated.
func checkRebalance(w *world) {
	w.produce(0, "a")
	w.produce(1, "b")
	first := w.open(w.settings(), nil)
	all := first.read(2)
	second := w.open(w.settings(), nil)
	wait.For(w, "the group has two members", func() bool {
		groups, err := w.admin.DescribeGroups(w.Context(), w.topic)
		return err == nil && len(groups[w.topic].Members) == 2
	})
	first.ack(all...)
	seen := map[string]int{}
	for i := 0; len(seen) < 2; i++ {
		w.produce(0, fmt.Sprintf("0:%d", i))
		w.produce(1, fmt.Sprintf("1:%d", i))
		for _, r := range second.readSome() {
			seen[show([]record.Record{r})[0]]++
			second.ack(r)
		}
	}
	for v, n := range seen {
		if n != 1 || v == "a" || v == "b" {
			w.Errorf("%s came %d times to the second member", v, n)
		}
	}
}

// checkFetched moves a partition to another member while it has fetched but unread messages: the other member reads
// them.
func checkFetched(w *world) {
	const n = 3000 // per partition: more than a batch, and less than a fetch
	var messages []*kgo.Record
	for i := range 2 * n {
		messages = append(messages, &kgo.Record{Topic: w.topic, Partition: int32(i % 2), Value: []byte(fmt.Sprint(i))})
	}
	if err := w.client.ProduceSync(w.Context(), messages...).FirstErr(); err != nil {
		w.Fatal(err)
	}
	seen := map[string]int{}
	take := func(s *source, all []record.Record) int {
		s.ack(all...)
		for _, v := range show(all) {
			seen[v]++
		}
		return len(all)
	}
	first := w.open(w.settings(), nil)
	if got := take(first, first.read(1)); got >= n {
		w.Fatalf("a batch has %d records", got)
	}
	second := w.open(w.settings(), nil)
	wait.For(w, "the other member has a partition", func() bool { return take(second, second.readSome()) > 0 })
	wait.For(w, "all records", func() bool {
		return take(first, first.readSome())+take(second, second.readSome()) == 0 && len(seen) == 2*n
	})
	for v, times := range seen {
		if times != 1 {
			w.Errorf("%s came %d times", v, times)
		}
	}
}

// readSome returns the records of a single read, which may take a second.
func (s *source) readSome() []record.Record {
	ctx, cancel := context.WithTimeout(s.ctx, time.Second)
	defer cancel()
	all, _ := s.Read(ctx)
	return all
}

func (s *source) progress() progress.Report { return s.Source.(sdk.Reporter).Progress() }

func checkLag(w *world) {
	w.produce(0, "a", "b")
	w.produce(1, "c")
	s := w.open(w.settings(), nil)
	all := s.read(3)
	s.ack(all[0])
	wait.For(w, "two are behind", func() bool {
		p := s.progress()
		return p.Records != nil && *p.Records == 2 && p.Seconds != nil && *p.Seconds > 0 &&
			partsAre(p.Parts, w.topic, all[1:])
	})
	s.ack(all[1:]...)
	wait.For(w, "none is behind", func() bool {
		p := s.progress()
		return *p.Records == 0 && *p.Seconds == 0 && p.Warning == ""
	})
}

// partsAre reports whether the parts are the partitions of the records.
func partsAre(parts []progress.Part, topic string, records []record.Record) bool {
	want := map[string]int64{}
	for i := range records {
		want[topic+"/"+records[i].Metadata.Get("kafka.partition")]++
	}
	for _, p := range parts {
		if want[p.Of] != p.Records {
			return false
		}
	}
	return len(parts) == len(want)
}

func checkCleanup(w *world) {
	w.produce(0, "a")
	s := w.open(w.settings(), nil)
	s.ack(s.want("a")...)
	s.close()
	for _, cleanup := range []string{"false", "true"} {
		if err := s.LifecycleOnDeleted(s.ctx, w.settings("autoCleanup", cleanup)); err != nil {
			w.Fatal(err)
		}
		want := int64(1)
		if cleanup == "true" {
			want = -1
		}
		if at := w.committed(0); at != want {
			w.Errorf("autoCleanup: %s: the group is at %d, want %d", cleanup, at, want)
		}
	}
}

// checkExpands skips a small batch that takes too much memory once it is decompressed, and reads the following
// messages.
func checkExpands(w *world) {
	w.produce(0, "before")
	large := w.newClient(kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.GzipCompression()),
		kgo.ProducerBatchMaxBytes(64<<20), kgo.BrokerMaxWriteBytes(100<<20))
	m := &kgo.Record{Topic: w.topic, Partition: 0, Value: make([]byte, 20<<20)}
	if err := large.ProduceSync(w.Context(), m).FirstErr(); err != nil {
		w.Fatal(err)
	}
	s := &source{world: w, Source: sdk.Standard(kafka.Connector()).NewSource(), ctx: w.env(w.topic + ":source")}
	w.Cleanup(s.close)
	sdk.EnvFrom(s.ctx).Budget = 16 << 20
	if err := s.Configure(s.ctx, w.settings()); err != nil {
		w.Fatal(err)
	}
	if err := s.Source.Open(s.ctx, nil); err != nil {
		w.Fatal(err)
	}
	s.want("before")
	w.produce(0, "behind")
	s.want("behind")
	text := fmt.Sprint(s.Source.(sdk.Reporter).Progress().Skipped)
	for _, want := range []string{"offset 1", "16 MiB", "memory.limit"} {
		if !strings.Contains(text, want) {
			w.Errorf("left out is %s, want %q in it", text, want)
		}
	}
}
