package otlp_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/conduit-agent/conduit/plugins/builtin/otlp"
)

// FuzzJSON decodes requests in JSON, makes records of them, and a request of the records. The second time, and in JSON,
// nothing changes.
func FuzzJSON(f *testing.F) {
	for i, signal := range signalNames {
		for seed := range uint64(3) {
			text, err := otlp.MarshalJSON(newMaker(seed).request(signal))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(byte(i), text)
		}
	}
	f.Add(byte(0), []byte(logJSON(`"traceId":"5B8EFFF798038103D269B633813FC60C",`+
		`"body":{"arrayValue":{"values":[{}]}}`)))
	f.Add(byte(0), []byte(logJSON(`"traceId":"a","attributes":[{"key":"a"},{"key":"a","value":{}}]`)))
	f.Fuzz(func(t *testing.T, which byte, text []byte) {
		signal := signalNames[int(which)%len(signalNames)]
		if _, err := otlp.JSONMemory(text); err != nil {
			return
		}
		data := otlp.NewData(signal)
		if otlp.UnmarshalJSON(text, data) != nil {
			return
		}
		body, err := proto.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := otlp.ProtobufMemory(body, data.ProtoReflect().Descriptor(), 0); err != nil {
			t.Errorf("the memory of a valid request is unknown: %v", err)
		}
		records, _, _ := otlp.RecordsOf(signal, data, true)
		if len(records) == 0 {
			return
		}
		once, err := otlp.RequestOf(records)
		if err != nil {
			t.Fatal(err)
		}
		again, rejected, reason := otlp.RecordsOf(signal, once, true)
		if rejected > 0 {
			t.Fatalf("%d are rejected: %v", rejected, reason)
		}
		twice, err := otlp.RequestOf(again)
		if err != nil || !proto.Equal(once, twice) {
			t.Fatalf("%v %s", err, difference(twice, once))
		}
		inJSON, err := otlp.MarshalJSON(twice)
		if err != nil {
			t.Fatal(err)
		}
		back := otlp.NewData(signal)
		if err := otlp.UnmarshalJSON(inJSON, back); err != nil || !proto.Equal(back, once) {
			t.Fatalf("%v %s", err, difference(back, once))
		}
	})
}
