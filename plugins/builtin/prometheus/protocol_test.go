package prometheus_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/snappy"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// histogramFields are the fields of Histogram in both protocols.
const histogramFields = `1 count_int uint64, 2 count_float double, 3 sum double, 4 schema sint32,
	5 zero_threshold double, 6 zero_count_int uint64, 7 zero_count_float double, 8 negative_spans BucketSpan*,
	9 negative_deltas sint64*, 10 negative_counts double*, 11 positive_spans BucketSpan*, 12 positive_deltas sint64*,
	13 positive_counts double*, 14 reset_hint uint32, 15 timestamp int64, 16 custom_values double*`

// schemas are the messages of remote write 1 and 2, so that tests decode requests with another decoder.
var schemas = [...]string{1: `
	Request: 1 timeseries TimeSeries*, 3 metadata Metadata*
	TimeSeries: 1 labels Label*, 2 samples Sample*, 3 exemplars Exemplar*, 4 histograms Histogram*
	Label: 1 name string, 2 value string
	Sample: 1 value double, 2 timestamp int64
	Exemplar: 1 labels Label*, 2 value double, 3 timestamp int64
	Metadata: 1 type uint32, 2 metric_family_name string, 4 help string, 5 unit string
	BucketSpan: 1 offset sint32, 2 length uint32
	Histogram: ` + histogramFields, 2: `
	Request: 4 symbols string*, 5 timeseries TimeSeries*
	TimeSeries: 1 labels_refs uint32*, 2 samples Sample*, 3 histograms Histogram*, 4 exemplars Exemplar*, ` +
	`5 metadata Metadata, 6 created_timestamp int64
	Sample: 1 value double, 2 timestamp int64, 3 start_timestamp int64
	Exemplar: 1 labels_refs uint32*, 2 value double, 3 timestamp int64
	Metadata: 1 type uint32, 3 help_ref uint32, 4 unit_ref uint32
	BucketSpan: 1 offset sint32, 2 length uint32
	Histogram: ` + histogramFields + `, 17 start_timestamp int64`}

// requestType returns the type of requests of a protocol.
func requestType(version int) protoreflect.MessageDescriptor {
	file := &descriptorpb.FileDescriptorProto{Name: new(fmt.Sprint(version, ".proto")), Syntax: new("proto3")}
	text := strings.ReplaceAll(schemas[version], ",\n", ",")
	for line := range strings.Lines(text) {
		name, fields, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			continue
		}
		message := &descriptorpb.DescriptorProto{Name: &name}
		for f := range strings.SplitSeq(fields, ",") {
			words := strings.Fields(f)
			number, err := strconv.ParseInt(words[0], 10, 32)
			if err != nil {
				panic(err)
			}
			kind, repeated := strings.CutSuffix(words[2], "*")
			field := &descriptorpb.FieldDescriptorProto{Name: &words[1], Number: new(int32(number)),
				Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
			if repeated {
				field.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
			}
			if id, ok := descriptorpb.FieldDescriptorProto_Type_value["TYPE_"+strings.ToUpper(kind)]; ok {
				field.Type = descriptorpb.FieldDescriptorProto_Type(id).Enum()
			} else {
				field.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
				field.TypeName = new("." + kind)
			}
			message.Field = append(message.Field, field)
		}
		file.MessageType = append(file.MessageType, message)
	}
	d, err := protodesc.NewFile(file, nil)
	if err != nil {
		panic(err)
	}
	return d.Messages().ByName("Request")
}

var requestTypes = [...]protoreflect.MessageDescriptor{1: requestType(1), 2: requestType(2)}

// encode returns a request that is given in the text format of protobuf.
func encode(t testing.TB, version int, text string) []byte {
	t.Helper()
	m := dynamicpb.NewMessage(requestTypes[version])
	if err := prototext.Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// message is a decoded message.
type message struct{ protoreflect.Message }

func (m message) field(name string) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(name)))
}

func (m message) list(name string) (all []message) {
	l := m.field(name).List()
	for i := range l.Len() {
		all = append(all, message{l.Get(i).Message()})
	}
	return all
}

// text returns the message in the text format of protobuf on one line, with single spaces.
func (m message) text() string {
	return strings.Join(strings.Fields(prototext.MarshalOptions{}.Format(m.Interface())), " ")
}

// point is a sample in a tsdb.
type point struct {
	series string // as {a="b", c="d"}
	at     int64
	bits   uint64
}

func (p point) String() string {
	return fmt.Sprintf("%s %v @%d", p.series, math.Float64frombits(p.bits), p.at)
}

// tsdb receives remote write like Prometheus: it compares samples with those of earlier requests, and drops the ones of
// a request that are not in order without an error.
type tsdb struct {
	*httptest.Server
	// partial stores the valid samples of a request that is refused, as Mimir does.
	partial bool
	fails   func(w http.ResponseWriter, request int) bool // responds to a request itself
	loses   func(request int) bool                        // does not respond to a request that it has stored

	mu       sync.Mutex
	newest   map[string]point // guarded by mu: by series
	points   []point          // guarded by mu: accepted ones
	messages []message        // guarded by mu: accepted ones
	requests int              // guarded by mu
	header   http.Header      // guarded by mu: of the last request
}

// serve starts a tsdb.
func serve(t testing.TB) *tsdb {
	db := &tsdb{newest: map[string]point{}}
	db.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		db.mu.Lock()
		defer db.mu.Unlock()
		db.requests++
		db.header = r.Header
		if db.fails != nil && db.fails(w, db.requests) {
			return
		}
		compressed, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		body, err := snappy.Decode(nil, compressed)
		if err != nil {
			t.Error(err)
		}
		version := 1
		if strings.Contains(r.Header.Get("Content-Type"), "v2") {
			version = 2
		}
		m := dynamicpb.NewMessage(requestTypes[version])
		if err := proto.Unmarshal(body, m); err != nil {
			t.Error(err)
		}
		if len(m.GetUnknown()) > 0 {
			t.Errorf("the request has unknown fields: %x", m.GetUnknown())
		}
		written, err := db.append(message{m}, version)
		if version == 2 {
			w.Header().Set("X-Prometheus-Remote-Write-Samples-Written", strconv.Itoa(written[0]))
			w.Header().Set("X-Prometheus-Remote-Write-Histograms-Written", strconv.Itoa(written[1]))
		}
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadRequest)
		case db.loses != nil && db.loses(db.requests):
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	t.Cleanup(db.Close)
	return db
}

// append stores the samples of a request, or the valid samples of a refused one with version 2 or partial.
func (db *tsdb) append(m message, version int) (written [2]int, refused error) {
	var valid []point
	kinds := map[point]int{}
	for _, series := range m.list("timeseries") {
		labels := labelsOf(m, series, version)
		for kind, field := range []string{"samples", "histograms"} {
			for _, s := range series.list(field) {
				p := point{series: labels, at: s.field("timestamp").Int()}
				if kind == 0 {
					p.bits = math.Float64bits(s.field("value").Float())
				}
				kinds[p] = kind
				switch before, ok := db.newest[labels]; {
				case ok && p.at < before.at:
					refused = errors.Join(refused, errors.New("out of order sample"))
				case ok && p.at == before.at && p.bits != before.bits:
					refused = errors.Join(refused, errors.New("duplicate sample for timestamp"))
				default:
					valid = append(valid, p)
				}
			}
		}
	}
	if refused != nil && version == 1 && !db.partial {
		return written, refused
	}
	for _, p := range valid {
		if before, ok := db.newest[p.series]; !ok || p.at > before.at {
			db.newest[p.series] = p
			db.points = append(db.points, p)
		}
		written[kinds[p]]++
	}
	if refused == nil {
		db.messages = append(db.messages, m)
	}
	return written, refused
}

// labelsOf returns the labels of a series as text.
func labelsOf(m, series message, version int) string {
	var all []string
	if version == 1 {
		for _, l := range series.list("labels") {
			all = append(all, fmt.Sprintf("%s=%q", l.field("name"), l.field("value").String()))
		}
	} else {
		refs, symbols := series.field("labels_refs").List(), m.field("symbols").List()
		for i := 0; i < refs.Len(); i += 2 {
			all = append(all, fmt.Sprintf("%s=%q", symbols.Get(int(refs.Get(i).Uint())),
				symbols.Get(int(refs.Get(i+1).Uint())).String()))
		}
	}
	if !slices.IsSorted(all) {
		panic(fmt.Sprintf("the labels %v are not sorted", all))
	}
	return "{" + strings.Join(all, ", ") + "}"
}

// count returns the number of requests.
func (db *tsdb) count() int {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.requests
}

// stored returns the accepted samples.
func (db *tsdb) stored() (all []string) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, p := range db.points {
		all = append(all, p.String())
	}
	return all
}
