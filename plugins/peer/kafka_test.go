package peer_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/conduit-agent/conduit/plugins/peer"
)

// fill gives every field of v a value, and arrays two entries.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type().Field(i).Name != "Version" &&
				v.Type().Field(i).Name != "UnknownTags" {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i))
		}
	case reflect.String:
		v.SetString("abc")
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	}
}

// kafkaRequest returns the header of a request, the only part that is inspected.
func kafkaRequest(key, version int16, correlation uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, 8+3)
	b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, uint16(key)), uint16(version))
	return append(binary.BigEndian.AppendUint32(b, correlation), 1, 2, 3)
}

func kafkaAnswer(correlation uint32, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))
	return append(binary.BigEndian.AppendUint32(b, correlation), body...)
}

// kafkaCheck sends requests, checks the answers in pieces of piece bytes, and returns the error of the check.
func kafkaCheck(t testing.TB, requests, answers []byte, piece int) error {
	t.Helper()
	_, err := kafkaRead(t, requests, answers, piece, nil)
	return err
}

// kafkaRead returns the answers as a client reads them as well.
func kafkaRead(t testing.TB, requests, answers []byte, piece int, batch peer.BatchFunc) (all []byte, err error) {
	t.Helper()
	here, there := net.Pipe()
	defer func() { _, _ = here.Close(), there.Close() }()
	c := peer.NewKafka(here, batch)
	go func() {
		b := make([]byte, 1<<16)
		for n := 0; n < len(requests); {
			m, err := there.Read(b)
			if err != nil {
				return
			}
			n += m
		}
		for len(answers) > 0 {
			n, err := there.Write(answers[:min(piece, len(answers))])
			if err != nil {
				return
			}
			answers = answers[n:]
		}
		_ = there.Close()
	}()
	if _, err := c.Write(requests); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, piece)
	for {
		n, err := c.Read(b)
		if all = append(all, b[:n]...); err != nil {
			return all, c.Err()
		}
	}
}

// TestKafkaBatches finds the headers of the complete batches in answers of all versions, in pieces of any size. The
// client reads the changed headers, and all other bytes unchanged.
func TestKafkaBatches(t *testing.T) {
	t.Parallel()
	batch := func(magic int8, count, size int) []byte {
		b := bytes.Repeat([]byte{0xee}, size)
		binary.BigEndian.PutUint32(b[8:], uint32(size-12))
		b[16] = byte(magic)
		if magic == 2 {
			binary.BigEndian.PutUint32(b[57:], uint32(count))
		}
		return b
	}
	cutOff := batch(2, 9, 300)[:200]
	lying := batch(2, 9, 100)
	binary.BigEndian.PutUint32(lying[8:], 0xfffffff0)
	parts := [][]byte{
		slices.Concat(batch(2, 3, 61), batch(1, 0, 34), batch(2, 4, 500), cutOff),
		nil,
		slices.Concat(batch(0, 0, 26), batch(0, 0, 26), batch(2, 5, 100), lying, batch(2, 6, 100)),
		batch(2, 7, 70)[:30],
	}
	want := []string{"3 behind 0", "4 behind 3", "5 behind 7"}
	for version := int16(0); version <= kmsg.NewPtrFetchResponse().MaxVersion(); version++ {
		answer := func(correlation uint32, parts [][]byte) []byte {
			r := kmsg.NewPtrFetchResponse()
			fill(reflect.ValueOf(r).Elem())
			r.SetVersion(version)
			topic := &r.Topics[0]
			r.Topics, topic.Partitions = r.Topics[:1], nil
			for _, p := range parts {
				partition := kmsg.NewFetchResponseTopicPartition()
				partition.RecordBatches = p
				topic.Partitions = append(topic.Partitions, partition)
			}
			var header []byte
			if r.IsFlexible() {
				header = []byte{0}
			}
			return kafkaAnswer(correlation, r.AppendTo(header))
		}
		both := append(answer(1, parts), answer(2, parts)...)
		requests := append(kafkaRequest(1, version, 1), kafkaRequest(1, version, 2)...)
		for _, piece := range []int{1, 7, 60, 61, 62, 121, 122, 150, 1 << 16} {
			var got []string
			all, err := kafkaRead(t, requests, both, piece, func(header []byte, earlier int64) {
				got = append(got, fmt.Sprintf("%d behind %d", binary.BigEndian.Uint32(header[57:]), earlier))
				header[0], header[60] = header[0]^0xff, header[60]^0xf0
			})
			if text := fmt.Sprint(got); err != nil || text != fmt.Sprint(append(want, want...)) {
				t.Fatalf("version %d in pieces of %d: %s, %v", version, piece, text, err)
			}
			if len(all) != len(both) {
				t.Fatalf("version %d in pieces of %d: %d of %d bytes", version, piece, len(all), len(both))
			}
			var changed int
			for i := range all {
				if all[i] != both[i] {
					changed++
				}
			}
			if changed != 2*len(got) {
				t.Errorf("version %d in pieces of %d: %d bytes are changed", version, piece, changed)
			}
		}
	}
}

// TestKafkaAnswers checks answers of all versions to all requests, twice in a row, so that an answer that is not
// followed to its end fails the next one. An answer cut off within its lengths fails.
func TestKafkaAnswers(t *testing.T) {
	t.Parallel()
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		r := kmsg.ResponseForKey(key)
		if r == nil {
			continue
		}
		for version := int16(0); version <= r.MaxVersion(); version++ {
			r := kmsg.ResponseForKey(key)
			fill(reflect.ValueOf(r).Elem())
			r.SetVersion(version)
			var body []byte
			if r.IsFlexible() && key != 18 {
				body = []byte{1, 9, 2, 'x', 'y'} // a tagged field in the header
			}
			body = r.AppendTo(body)
			requests := append(kafkaRequest(key, version, 1), kafkaRequest(key, version, 2)...)
			both := append(kafkaAnswer(1, body), kafkaAnswer(2, body)...)
			for _, piece := range []int{1, 7, 1 << 16} {
				if err := kafkaCheck(t, requests, both, piece); err != nil {
					t.Errorf("key %d version %d in pieces of %d: %v", key, version, piece, err)
				}
			}
		}
	}
}

// TestKafkaRefuses checks answers that announce more data than they have.
func TestKafkaRefuses(t *testing.T) {
	t.Parallel()
	huge := binary.BigEndian.AppendUint32(nil, 0x7ffffff0)
	for name, c := range map[string]struct {
		key, version int16
		body         []byte
		says         string
	}{
		"topics of a fetch": {1, 11, append(make([]byte, 4+2+4), huge...), "arrays of"},
		"brokers, flexible": {3, 12, append([]byte{0, 0, 0, 0, 0}, 0xff, 0xff, 0xff, 0xff, 7), "arrays of"},
		"a string": {3, 5, append(make([]byte, 4), 0, 0, 0, 1, 0, 0, 0, 1, 0x7f, 0xff),
			"are left of the answer"},
		"a tag":                   {3, 12, []byte{1, 9, 0xff, 0xff, 0xff, 7}, "tagged field"},
		"cut off":                 {3, 5, []byte{0, 0, 0, 0, 0}, "shorter than announced"},
		"plain":                   {12, 4, make([]byte, 300<<10), "at most 262144"},
		"a length that is no one": {3, 12, []byte{0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, "malformed"},
	} {
		err := kafkaCheck(t, kafkaRequest(c.key, c.version, 1), kafkaAnswer(1, c.body), 1<<16)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
	}
}
