package wire_test

import (
	"testing"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/wire"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/commonv1"
	"github.com/conduit-agent/conduit/plugins/wire/wirepb/connectorv2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"
)

// Records are encoded by hand; the protobuf library must decode them to the same values.

func object() *rapid.Generator[map[string]any] {
	leaf := rapid.OneOf(rapid.Just[any](nil), rapid.String().AsAny(), rapid.Bool().AsAny(), rapid.Float64().AsAny())
	inner := rapid.OneOf(leaf, rapid.MapOf(rapid.String(), leaf).AsAny(), rapid.SliceOf(leaf).AsAny())
	return rapid.MapOf(rapid.String(), inner)
}

func data() *rapid.Generator[*commonv1.Data] {
	return rapid.Custom(func(t *rapid.T) *commonv1.Data {
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return &commonv1.Data{Data: &commonv1.Data_RawData{RawData: rapid.SliceOf(rapid.Byte()).Draw(t, "raw")}}
		}
		s, err := structpb.NewStruct(object().Draw(t, "object"))
		if err != nil {
			t.Fatal(err)
		}
		return &commonv1.Data{Data: &commonv1.Data_StructuredData{StructuredData: s}}
	})
}

func TestRecordsAsProtobufSeesThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := &commonv1.Record{
			Position:  rapid.SliceOf(rapid.Byte()).Draw(t, "position"),
			Operation: commonv1.Operation(rapid.Int32().Draw(t, "operation")),
			Metadata:  rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "metadata"),
			Key:       data().Draw(t, "key"),
			Payload:   &commonv1.Change{Before: data().Draw(t, "before"), After: data().Draw(t, "after")},
		}
		b, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		r, err := record.ParseWire(b)
		if err != nil {
			t.Fatal(err)
		}
		again, err := record.AppendWire(nil, &r)
		if err != nil {
			t.Fatal(err)
		}
		if len(again) != len(b) {
			t.Errorf("encoded in %d bytes, want %d", len(again), len(b))
		}
		got := &commonv1.Record{}
		if err := proto.Unmarshal(again, got); err != nil || !proto.Equal(got, want) {
			t.Fatalf("got  %v, %v\nwant %v", got, err, want)
		}
	})
}

// ParseWire accepts every message that protobuf accepts, with the same meaning.
func FuzzParseAsProtobuf(f *testing.F) {
	seed, err := proto.Marshal(&commonv1.Record{Position: []byte("1"), Metadata: map[string]string{"a": "b"},
		Payload: &commonv1.Change{After: &commonv1.Data{Data: &commonv1.Data_StructuredData{
			StructuredData: &structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewNumberValue(1)}}}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, in []byte) {
		want := &commonv1.Record{}
		if proto.Unmarshal(in, want) != nil {
			return
		}
		r, err := record.ParseWire(in)
		if err != nil {
			t.Fatalf("cannot parse what protobuf can: %v", err)
		}
		b, err := record.AppendWire(nil, &r)
		if err != nil {
			t.Fatal(err)
		}
		got := &commonv1.Record{}
		if err := proto.Unmarshal(b, got); err != nil {
			t.Fatal(err)
		}
		if plain(t, got) != plain(t, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
	})
}

// plain returns the message's text without insignificant parts: unknown fields and empty data.
func plain(t *testing.T, r *commonv1.Record) string {
	clean := func(d *commonv1.Data) *commonv1.Data {
		switch v := d.GetData().(type) {
		case *commonv1.Data_RawData:
			return &commonv1.Data{Data: &commonv1.Data_RawData{RawData: v.RawData}}
		case *commonv1.Data_StructuredData:
			s, err := structpb.NewStruct(v.StructuredData.AsMap())
			if err != nil {
				t.Fatal(err)
			}
			return &commonv1.Data{Data: &commonv1.Data_StructuredData{StructuredData: s}}
		}
		return nil
	}
	c := &commonv1.Record{Position: r.GetPosition(), Operation: r.GetOperation(), Metadata: r.GetMetadata(),
		Key:     clean(r.GetKey()),
		Payload: &commonv1.Change{Before: clean(r.GetPayload().GetBefore()), After: clean(r.GetPayload().GetAfter())}}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestMessagesOfSourcesAndDestinationsAreTheSame(t *testing.T) {
	out := &connectorv2.Source_Run_Response{Records: []*commonv1.Record{{Position: []byte("1")},
		{Position: []byte("2")}}}
	b, err := proto.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := record.NewEncodedBatch(b)
	if err != nil || batch.Len() != 2 || string(batch.Position(1)) != "2" {
		t.Fatalf("got %v, %v", batch, err)
	}
	if b, err = batch.AppendWire(nil, 0, 2); err != nil {
		t.Fatal(err)
	}
	in := &connectorv2.Destination_Run_Request{}
	if err := proto.Unmarshal(b, in); err != nil || len(in.GetRecords()) != 2 ||
		!proto.Equal(in.GetRecords()[1], out.GetRecords()[1]) {
		t.Errorf("got %v, %v", in, err)
	}
}

func TestAcksUpToAMaximum(t *testing.T) {
	var b []byte
	for i := range 10 {
		b = wire.AppendAck(b, wire.Ack{Position: record.Position{byte('0' + i)}})
	}
	for _, max := range []int{0, 3, 10, 11} {
		acks, err := wire.ParseAcks(b, wire.Version2, max)
		if err != nil || len(acks) != min(max, 10) {
			t.Errorf("at most %d of 10: got %d, %v", max, len(acks), err)
		}
	}
}
