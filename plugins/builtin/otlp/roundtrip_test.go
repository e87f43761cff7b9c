package otlp_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/conduit-agent/conduit/plugins/builtin/otlp"
	"github.com/conduit-agent/conduit/plugins/record"
)

var signalNames = []string{"logs", "metrics", "traces"}

// maker makes random requests in the only form that a destination makes: attributes are sorted, and no two resources,
// scopes of a resource or metrics of a scope are equal.
type maker struct {
	*rand.Rand
	number int // of the last unique name
}

func newMaker(seed uint64) *maker { return &maker{Rand: rand.New(rand.NewPCG(seed, 1))} }

func (m *maker) request(signal string) proto.Message {
	data := otlp.NewData(signal)
	m.fill(data.ProtoReflect(), 0)
	return data
}

// fill sets the fields of a message at random.
func (m *maker) fill(msg protoreflect.Message, depth int) {
	fields := msg.Descriptor().Fields()
	chosen := map[protoreflect.Name]int{}
	for i := range fields.Len() {
		f := fields.Get(i)
		if strings.HasSuffix(string(f.Name()), "strindex") { // of profiles
			continue
		}
		if o := f.ContainingOneof(); o != nil {
			if _, ok := chosen[o.Name()]; !ok {
				chosen[o.Name()] = m.choice(o)
			}
			if i != chosen[o.Name()] {
				continue
			}
		} else if !f.IsList() && m.IntN(4) == 0 {
			continue
		}
		m.set(msg, f, depth)
	}
	m.amend(msg)
}

// choice returns the index of a field of a oneof, or -1 for none. A metric without data has no data points.
func (m *maker) choice(o protoreflect.OneofDescriptor) int {
	n := o.Fields().Len()
	i := m.IntN(n + 1)
	if i == n && o.Name() == "data" {
		i = 0
	}
	if i == n || strings.HasSuffix(string(o.Fields().Get(i).Name()), "strindex") {
		return -1
	}
	return o.Fields().Get(i).Index()
}

func (m *maker) set(msg protoreflect.Message, f protoreflect.FieldDescriptor, depth int) {
	if !f.IsList() {
		if f.Message() == nil {
			msg.Set(f, m.scalar(f))
		} else if depth < 7 {
			m.fill(msg.Mutable(f).Message(), depth+1)
		}
		return
	}
	n := m.IntN(4)
	if f.Message() != nil && depth > 7 {
		n = 0
	}
	list := msg.Mutable(f).List()
	for range n {
		if f.Message() == nil {
			list.Append(m.scalar(f))
		} else {
			m.fill(list.AppendMutable().Message(), depth+1)
		}
	}
}

var numbers = []uint64{0, 1, 2, 200, 1 << 31, 1<<53 + 1, 1<<63 - 1, 1 << 63, math.MaxUint64, 1700000000123456789}

var doubles = []float64{0, 1, -1, 1.5, 200, 1e300, -1e-300, 1 << 53, 1 << 62, 1 << 63, 1 << 64, math.NaN(),
	math.Inf(1), math.Inf(-1)}

func (m *maker) scalar(f protoreflect.FieldDescriptor) protoreflect.Value {
	n := numbers[m.IntN(len(numbers))]
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(m.IntN(2) == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(m.IntN(30)))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(n)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(doubles[m.IntN(len(doubles))])
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(m.text())
	case protoreflect.BytesKind:
		id := make([]byte, 16)
		if strings.HasSuffix(string(f.Name()), "span_id") {
			id = id[:8]
		}
		for i := range id {
			id[i] = byte(m.IntN(256))
		}
		return protoreflect.ValueOfBytes(id)
	}
	panic("a field of a kind that the test does not know: " + f.FullName())
}

func (m *maker) text() string {
	return []string{"", "a", "a/b~c", "é\n\"", "http.route", "NaN", "12", "QQ=="}[m.IntN(8)]
}

func (m *maker) unique() string {
	m.number++
	return fmt.Sprint(m.text(), m.number)
}

// amend makes a random message one that a destination can make: it sorts attributes, and makes groups unique.
func (m *maker) amend(msg protoreflect.Message) {
	name := string(msg.Descriptor().Name())
	fields := msg.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.IsList() && f.Message() != nil && f.Message().Name() == "KeyValue" {
			var all []*common.KeyValue
			list := msg.Get(f).List()
			for j := range list.Len() {
				all = append(all, list.Get(j).Message().Interface().(*common.KeyValue))
			}
			all = sorted(all)
			msg.Clear(f)
			for _, kv := range all {
				msg.Mutable(f).List().Append(protoreflect.ValueOfMessage(kv.ProtoReflect()))
			}
		}
		isGroup := strings.HasPrefix(name, "Resource") && name != "Resource" || strings.HasPrefix(name, "Scope") ||
			strings.HasSuffix(name, "Data")
		if isGroup && f.IsList() { // an empty group has no records
			for msg.Get(f).List().Len() == 0 {
				m.fill(msg.Mutable(f).List().AppendMutable().Message(), 3)
			}
		}
	}
	url := fields.ByName("schema_url")
	if scope := cmp.Or(fields.ByName("scope"), fields.ByName("resource")); scope != nil && url != nil {
		msg.Mutable(scope)
		msg.Set(url, protoreflect.ValueOfString(m.unique()))
	}
	if name == "Metric" {
		msg.Set(fields.ByName("name"), protoreflect.ValueOfString(m.unique()))
		data := msg.Mutable(msg.WhichOneof(msg.Descriptor().Oneofs().ByName("data"))).Message()
		points := data.Descriptor().Fields().ByName("data_points")
		for data.Get(points).List().Len() == 0 {
			m.fill(data.Mutable(points).List().AppendMutable().Message(), 5)
		}
	}
}

// sorted returns attributes sorted by key, without keys that occur twice. A value is always there.
func sorted(all []*common.KeyValue) []*common.KeyValue {
	slices.SortStableFunc(all, func(a, b *common.KeyValue) int { return cmp.Compare(a.Key, b.Key) })
	all = slices.CompactFunc(all, func(a, b *common.KeyValue) bool { return a.Key == b.Key })
	for _, kv := range all {
		if kv.Value == nil {
			kv.Value = &common.AnyValue{}
		}
	}
	return all
}

// difference returns the first lines in which two messages differ.
func difference(got, want proto.Message) string {
	g, w := strings.Split(prototext.Format(got), "\n"), strings.Split(prototext.Format(want), "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			around := max(0, i-8)
			return fmt.Sprintf("got\n%s\nwant\n%s", strings.Join(g[around:min(len(g), i+4)], "\n"),
				strings.Join(w[around:min(len(w), i+4)], "\n"))
		}
	}
	return fmt.Sprintf("got %d lines, want %d", len(g), len(w))
}

// TestRoundTrip makes records of random requests, and requests of the records: nothing is lost or changed, also when
// the records were encoded in between, as in a spool, in a process or in a file.
func TestRoundTrip(t *testing.T) {
	ways := map[string]func(*testing.T, record.Record) record.Record{
		"as they are": func(_ *testing.T, r record.Record) record.Record { return r },
		"protobuf": func(t *testing.T, r record.Record) record.Record {
			b, err := record.AppendWire(nil, &r)
			if err != nil {
				t.Fatal(err)
			}
			if r, err = record.ParseWire(b); err != nil {
				t.Fatal(err)
			}
			return r
		},
		"json": func(t *testing.T, r record.Record) record.Record {
			b, err := record.AppendJSON(nil, &r)
			if err != nil {
				t.Fatal(err)
			}
			var back record.Record
			if err := json.Unmarshal(b, &back); err != nil {
				t.Fatal(err)
			}
			return back
		},
	}
	for _, signal := range signalNames {
		for way, through := range ways {
			for _, inBody := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, %s, in body: %t", signal, way, inBody), func(t *testing.T) {
					for seed := range uint64(15) {
						want := newMaker(seed).request(signal)
						records, rejected, reason := otlp.RecordsOf(signal, want, inBody)
						if rejected > 0 {
							t.Fatalf("seed %d: %d are rejected: %v", seed, rejected, reason)
						}
						for i := range records {
							records[i].Position = record.Position("p")
							records[i] = through(t, records[i])
						}
						got, err := otlp.RequestOf(records)
						if err != nil {
							t.Fatalf("seed %d: %v", seed, err)
						}
						if !proto.Equal(got, want) {
							t.Fatalf("seed %d: %s", seed, difference(got, want))
						}
					}
				})
			}
		}
	}
}

// TestJSONRoundTrip encodes random requests as OTLP/JSON and decodes them.
func TestJSONRoundTrip(t *testing.T) {
	for _, signal := range signalNames {
		for seed := range uint64(15) {
			want := newMaker(seed).request(signal)
			text, err := otlp.MarshalJSON(newMaker(seed).request(signal))
			if err != nil {
				t.Fatal(err)
			}
			got := otlp.NewData(signal)
			if err := otlp.UnmarshalJSON(text, got); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			if !proto.Equal(got, want) {
				t.Fatalf("seed %d: %s", seed, difference(got, want))
			}
		}
	}
}

// TestPointsOfAnyKind checks that the random requests have metrics of all kinds.
func TestPointsOfAnyKind(t *testing.T) {
	kinds := map[string]bool{}
	for seed := range uint64(15) {
		for _, r := range newMaker(seed).request("metrics").(*metrics.MetricsData).ResourceMetrics {
			for _, s := range r.ScopeMetrics {
				for _, m := range s.Metrics {
					kinds[fmt.Sprintf("%T", m.Data)] = true
				}
			}
		}
	}
	if len(kinds) != 5 {
		t.Errorf("there are only metrics of the kinds %v", kinds)
	}
}
