package parse_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

//go:generate protoc --proto_path=../testdata --include_imports --descriptor_set_out=../testdata/shop.binpb shop.proto

const shop = "../testdata/shop.binpb"

func TestMessageToAndFrom(t *testing.T) {
	settings := map[string]string{"descriptors": shop, "message": "shop.Order"}
	want := map[string]any{"id": int64(1) << 60, "placedAt": time.Date(2024, 1, 2, 3, 4, 5, 6, time.UTC),
		"lines": []any{map[string]any{"article": "é", "pieces": int64(-1)}}, "signature": []byte{0, 255},
		"status": "PAID"}
	encoded, err := process(t, open(t, "protobuf.encode", settings), structured(want))
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := process(t, open(t, "protobuf.decode", settings), encoded.Clone())
	if got, _ := decoded.After.Structured(); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("%v\n%s", err, cmp.Diff(want, got))
	}
	text := record.Record{After: record.Raw([]byte(`{"id":"1152921504606846976",` +
		`"placed_at":"2024-01-02T03:04:05.000000006Z","lines":[{"article":"é","pieces":-1}],"signature":"AP8=","status":1}`))}
	same, err := process(t, open(t, "protobuf.encode", settings), text)
	if err != nil || !same.Equal(encoded) {
		t.Errorf("JSON becomes another message: %v\n%s", err, cmp.Diff(encoded, same))
	}
	for name, v := range map[string]any{"protobuf.decode": int64(1), "protobuf.encode": true} {
		p := open(t, name, with(settings, "field", ".Payload.After.v"))
		if r, err := process(t, p, structured(map[string]any{"v": v})); err == nil {
			t.Errorf("%s makes %v of %v", name, r, v)
		}
	}
}

func TestBadSettingsOfProtobuf(t *testing.T) {
	for _, name := range []string{"protobuf.decode", "protobuf.encode"} {
		wantRefused(t, name, map[string]map[string]string{
			"target": {"descriptors": shop, "message": "shop.Order", "target": ".Metadata.x"},
		})
		refuse := sdk.WithEnv(ctx, &sdk.Env{AllowPath: func(string) error { return errors.New("outside") }})
		p, err := configured(t, name, map[string]string{"descriptors": shop, "message": "shop.Order"})
		if err != nil {
			t.Fatal(err)
		}
		settings := map[string]string{"descriptors": shop, "message": "shop.Order"}
		var wrong sdk.SettingError
		if err := p.Configure(refuse, settings); !errors.As(err, &wrong) || wrong.Setting != "descriptors" {
			t.Errorf("%s: a path that is not allowed: %v", name, err)
		}
		for path, want := range map[string]string{shop + ".none": "cannot read the descriptor set",
			"protobuf_test.go": "cannot use the descriptor set protobuf_test.go: it is not a descriptor set"} {
			p, err := configured(t, name, with(settings, "descriptors", path))
			if err == nil {
				err = p.Open(ctx)
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s with %s: the error is %v, want %s", name, path, err, want)
			}
		}
	}
}

// tickingClock is a clock that advances by a minute with each look.
type tickingClock struct {
	sdk.Clock
	now *time.Time
}

func (c tickingClock) Now() time.Time {
	*c.now = c.now.Add(time.Minute)
	return *c.now
}

func TestDescriptorSetIsReadAgain(t *testing.T) {
	set, err := os.ReadFile(shop)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "shop.binpb")
	write := func(b []byte) {
		if err := errors.Join(os.WriteFile(path+".new", b, 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	write(set)
	ticking := sdk.WithEnv(context.Background(), &sdk.Env{Logger: slog.New(slog.DiscardHandler),
		Clock: tickingClock{now: new(time.Time)}})
	p, err := configured(t, "protobuf.decode", map[string]string{"descriptors": path, "message": "shop.Line"})
	if err == nil {
		err = p.Open(ticking)
	}
	if err != nil {
		t.Fatal(err)
	}
	decode := func() any {
		all := []record.Record{{After: record.Raw([]byte("\n\x04Lamp"))}}
		b := sdk.NewProcessBatch("token", all, nil)
		if err := p.Process(ticking, b); err != nil || b.Fates() != nil {
			t.Fatal(err, b.Fates())
		}
		m, _ := all[0].After.Structured()
		return m
	}
	if diff := cmp.Diff(any(map[string]any{"article": "Lamp"}), decode()); diff != "" {
		t.Error(diff)
	}
	write([]byte("half a file"))
	if diff := cmp.Diff(any(map[string]any{"article": "Lamp"}), decode()); diff != "" {
		t.Errorf("a broken file replaces the descriptor set\n%s", diff)
	}
	var parsed descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(set, &parsed); err != nil {
		t.Fatal(err)
	}
	for _, f := range parsed.GetFile() {
		for _, m := range f.GetMessageType() {
			if m.GetName() == "Line" {
				m.Field[0].Name, m.Field[0].JsonName = proto.String("sku"), proto.String("sku")
			}
		}
	}
	if set, err = proto.Marshal(&parsed); err != nil {
		t.Fatal(err)
	}
	write(set)
	if diff := cmp.Diff(any(map[string]any{"sku": "Lamp"}), decode()); diff != "" {
		t.Errorf("a new descriptor set is not used\n%s", diff)
	}
}

func BenchmarkProtobuf(b *testing.B) {
	settings := map[string]string{"descriptors": shop, "message": "shop.Order"}
	r, err := process(b, open(b, "protobuf.encode", settings), structured(map[string]any{"id": int64(17),
		"customer": "Ada", "lines": []any{map[string]any{"article": "Lamp", "pieces": int64(2)}}}))
	if err != nil {
		b.Fatal(err)
	}
	message, _ := r.After.Raw()
	set, err := os.ReadFile(shop)
	if err != nil {
		b.Fatal(err)
	}
	var parsed descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(set, &parsed); err != nil {
		b.Fatal(err)
	}
	files, err := protodesc.NewFiles(&parsed)
	if err != nil {
		b.Fatal(err)
	}
	order, err := files.FindDescriptorByName("shop.Order")
	if err != nil {
		b.Fatal(err)
	}
	benchmark(b, "protobuf.decode", settings, string(message), func() {
		if err := proto.Unmarshal(message, dynamicpb.NewMessage(order.(protoreflect.MessageDescriptor))); err != nil {
			b.Fatal(err)
		}
	})
}
