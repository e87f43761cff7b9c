package elasticsearch_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/conduit-agent/conduit/plugins/builtin/elasticsearch"
	"github.com/conduit-agent/conduit/plugins/plugintest/builtintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/elastic"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/record"
)

// open returns an open destination that connects to p.
func open(t *testing.T, p *network.Pipes, settings map[string]string) *elasticsearch.Destination {
	t.Helper()
	d := &elasticsearch.Destination{}
	all := d.Parameters().ApplyDefaults(settings)
	if wrong := d.Parameters().Check(all); len(wrong) > 0 {
		t.Fatal(wrong)
	}
	builtintest.Open(t, d, all)
	d.Sink.Client.Transport.DialContext = p.Dial
	return d
}

// payload is the document of a record in the model.
type payload struct {
	N      int    `json:"n"`
	Kind   string `json:"kind"` // "", bad: refused by itself, poison: the request is refused, or large
	Filler string `json:"filler"`
}

const mostBytes = 1500 // of a request in the model

// faults makes a server fail at random.
func faults(s *elastic.Server, random *rand.Rand) {
	s.Before = func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		switch fault := random.IntN(20); {
		case len(body) > mostBytes:
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		case bytes.Contains(body, []byte(`"poison"`)):
			http.Error(w, "cannot parse the request", http.StatusBadRequest)
		case fault == 0:
			w.Header().Set("Retry-After", "7")
			http.Error(w, "overloaded", http.StatusTooManyRequests)
		case fault == 1:
			http.Error(w, "starting", http.StatusServiceUnavailable)
		case fault == 2:
			panic(http.ErrAbortHandler)
		default:
			return false
		}
		return true
	}
	s.Refuse = func(o elastic.Operation) (elastic.Result, bool) {
		switch {
		case random.IntN(8) == 0:
			return elastic.Failure(http.StatusTooManyRequests, "es_rejected_execution_exception", "full"), true
		case bytes.Contains(o.Document, []byte(`"bad"`)):
			return elastic.Failure(http.StatusBadRequest, "mapper_parsing_exception", "no number"), true
		}
		return elastic.Result{}, false
	}
	s.After = func(w http.ResponseWriter, response []byte) bool {
		switch random.IntN(20) {
		case 0:
			panic(http.ErrAbortHandler)
		case 1:
			_, _ = w.Write(response[:random.IntN(len(response))])
		case 2:
			_, _ = io.WriteString(w, `{"errors":false,"items":[]}`)
		case 3:
			http.Error(w, "<html>", http.StatusBadGateway)
		case 4:
			_, _ = io.WriteString(w, "<html>")
		default:
			return false
		}
		return true
	}
}

// recordsOf returns random records. Some share a position, as records that a processor made from one do.
func recordsOf(random *rand.Rand, dataStream bool) (all []record.Record) {
	position := 0
	for n := range 60 {
		if random.IntN(4) > 0 {
			position++
		}
		p := payload{N: n, Kind: []string{"", "", "", "", "", "", "", "bad", "poison"}[random.IntN(9)],
			Filler: strings.Repeat("x", random.IntN(100))}
		if random.IntN(30) == 0 {
			p.Kind, p.Filler = "large", strings.Repeat("x", mostBytes)
		}
		text, _ := json.Marshal(p)
		r := record.Record{Position: strconv.AppendInt(nil, int64(position), 10), Operation: record.OperationCreate,
			Metadata: record.NewMetadata(map[string]string{record.KeySourceConnectorID: "pipe:src",
				record.KeyCollection: "t", record.KeyCreatedAt: "1700000000000000000"}), After: record.Raw(text)}
		if random.IntN(3) > 0 {
			r.Key = record.Structured(map[string]any{"id": random.IntN(6)})
			if random.IntN(5) == 0 && !dataStream {
				r.Operation, r.Before, r.After = record.OperationDelete, r.After, record.Data{}
			}
		}
		all = append(all, r)
	}
	return all
}

func payloadOf(d record.Data) (p payload) {
	raw, _ := d.Raw()
	_ = json.Unmarshal(raw, &p)
	return p
}

// want returns the numbers of the documents that the records leave, and of the records that are refused.
func want(all []record.Record, dataStream bool) (documents, refused []int) {
	last := map[string]int{}
	for n, r := range all {
		id := fmt.Sprint("number ", n)
		if key, ok := r.Key.Structured(); ok && !dataStream {
			id = fmt.Sprint("key ", key["id"])
		}
		switch p := payloadOf(r.After); {
		case r.After.IsNone():
			delete(last, id)
		case p.Kind != "":
			refused = append(refused, n)
		default:
			last[id] = n
		}
	}
	return slices.Sorted(maps.Values(last)), refused
}

// host writes the records as an agent does that fails from time to time, and returns the numbers of the refused ones.
func host(t *testing.T, random *rand.Rand, p *network.Pipes, settings map[string]string, all []record.Record) []int {
	refused := map[int]bool{}
	d := open(t, p, settings)
	for n, tries := 0, 0; n < len(all); tries++ {
		if tries > 10_000 {
			t.Fatal("it makes no progress")
		}
		batch := all[n:min(len(all), n+1+random.IntN(30))]
		written, err := d.Write(t.Context(), batch)
		if written > len(batch) || written == len(batch) && err != nil || written < len(batch) && err == nil {
			t.Fatalf("wrote %d of %d: %v", written, len(batch), err)
		}
		n += written
		switch {
		case err == nil:
		case builtintest.Lost(err) && random.IntN(2) == 0:
			// A new destination gets the records from a position on that may be older.
			d = open(t, p, settings)
			for n = max(0, n-random.IntN(20)); n > 0 && bytes.Equal(all[n].Position, all[n-1].Position); n-- {
			}
		case builtintest.Lost(err):
		default:
			refused[n] = true
			n++
		}
	}
	return slices.Sorted(maps.Keys(refused))
}

// TestModel writes random records to a server that fails at random. The documents are those that the records leave when
// each is written once, in order, and exactly the records that the server refuses are refused.
func TestModel(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			dataStream := random.IntN(3) == 0
			all := recordsOf(random, dataStream)
			s := &elastic.Server{}
			faults(s, random)
			settings := map[string]string{"url": "http://h", "dataStream": strconv.FormatBool(dataStream),
				"batch.maxRecords": strconv.Itoa(1 + random.IntN(30)), "retry.timeout": "1s",
				"batch.maxBytes": strconv.Itoa(100 + random.IntN(5000)),
				"compression":    []string{"none", "gzip"}[random.IntN(2)]}
			refused := host(t, random, network.ServePipes(t, s), settings, all)
			documents, wantRefused := want(all, dataStream)
			var got []int
			for _, o := range s.Documents() {
				got = append(got, payloadOf(record.Raw(o.Document)).N)
			}
			if slices.Sort(got); !slices.Equal(got, documents) {
				t.Errorf("seed %d, data stream %t: the documents are %v, want %v", seed, dataStream, got, documents)
			}
			if !slices.Equal(refused, wantRefused) {
				t.Errorf("seed %d, data stream %t: refused are %v, want %v", seed, dataStream, refused, wantRefused)
			}
		})
	}
}
