package peer_test

import (
	"encoding/binary"
	"net"
	"reflect"
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

// kafkaRequest returns the header of a request, which is all that is looked at.
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
	here, there := net.Pipe()
	defer func() { _, _ = here.Close(), there.Close() }()
	c := peer.NewKafka(here)
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
		if _, err := c.Read(b); err != nil {
			return c.Err()
		}
	}
}

// TestKafkaAnswers follows answers of all versions to all requests, twice in a row, so that an answer that is not
// followed to its end fails the next one; and cut off anywhere in its lengths, fails.
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

// TestKafkaRefuses has answers that announce more than they have.
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
		"cut off":                 {3, 5, []byte{0, 0, 0, 0, 0}, "shorter than what it announces"},
		"plain":                   {12, 4, make([]byte, 300<<10), "at most 262144"},
		"a length that is no one": {3, 12, []byte{0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, "malformed"},
	} {
		err := kafkaCheck(t, kafkaRequest(c.key, c.version, 1), kafkaAnswer(1, c.body), 1<<16)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
	}
}
