package log_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/log"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func write(t *testing.T, h slog.Handler, settings map[string]string, records ...record.Record) (int, error) {
	t.Helper()
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{Logger: slog.New(h).With("component", "plugin")})
	d := log.Connector().NewDestination()
	if err := d.Configure(ctx, settings); err != nil {
		t.Fatal(err)
	}
	if err := d.Open(ctx); err != nil {
		t.Fatal(err)
	}
	n, err := d.Write(ctx, records)
	if err := d.Teardown(ctx); err != nil {
		t.Error(err)
	}
	return n, err
}

var example = record.Record{
	Position:  record.Position("1"),
	Operation: record.OperationCreate,
	Metadata:  record.NewMetadata(map[string]string{"k": "v"}),
	Key:       record.Raw([]byte("hello")),
	After:     record.Structured(map[string]any{"a": 1, "b": "<x>"}),
}

const exampleJSON = `{"position":"MQ==","operation":"create","metadata":{"k":"v"},"key":"aGVsbG8=",` +
	`"payload":{"before":null,"after":{"a":1,"b":"\u003cx\u003e"}}}`

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	n, err := write(t, slog.NewJSONHandler(&out, nil), map[string]string{"message": "hi"}, example, example)
	if n != 2 || err != nil {
		t.Fatalf("got %d, %v", n, err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("got %d entries for 2 records", len(lines))
	}
	var entry struct {
		Level, Msg, Component string
		Record                json.RawMessage
	}
	if err := json.Unmarshal([]byte(lines[0]), &entry); err != nil {
		t.Fatal(err)
	}
	if entry.Level != "INFO" || entry.Msg != "hi" || entry.Component != "plugin" ||
		string(entry.Record) != exampleJSON {
		t.Errorf("got %+v with record %s", entry, entry.Record)
	}
}

func TestText(t *testing.T) {
	var out bytes.Buffer
	if _, err := write(t, slog.NewTextHandler(&out, nil), nil, example); err != nil {
		t.Fatal(err)
	}
	if want := `\"position\":\"MQ==\"`; !strings.Contains(out.String(), want) {
		t.Errorf("got %s, want it to contain %s", &out, want)
	}
}

func TestValueIsText(t *testing.T) {
	var got slog.Value
	h := slog.NewTextHandler(new(bytes.Buffer),
		&slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == "record" {
				got = a.Value
			}
			return a
		}})
	if _, err := write(t, h, nil, example); err != nil {
		t.Fatal(err)
	}
	if got.String() != exampleJSON {
		t.Errorf("got %s", got)
	}
	m, ok := got.Any().(json.Marshaler)
	if !ok {
		t.Fatalf("a %T cannot be JSON", got.Any())
	}
	if text, err := m.MarshalJSON(); err != nil || string(text) != exampleJSON {
		t.Errorf("got %s, %v", text, err)
	}
}

func TestLevels(t *testing.T) {
	levels := map[string]slog.Level{
		"":      slog.LevelInfo,
		"trace": -8,
		"debug": slog.LevelDebug,
		"info":  slog.LevelInfo,
		"warn":  slog.LevelWarn,
		"error": slog.LevelError,
	}
	for name, level := range levels {
		for _, min := range []slog.Level{level, level + 1} {
			var out bytes.Buffer
			h := slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: min})
			if n, err := write(t, h, map[string]string{"level": name}, example); n != 1 || err != nil {
				t.Fatalf("got %d, %v", n, err)
			}
			if written := out.Len() > 0; written != (min == level) {
				t.Errorf("level %q in a log of level %d: written is %v", name, min, written)
			}
		}
	}
}

func TestRecordThatCannotBeEncoded(t *testing.T) {
	bad := example
	bad.After = record.Structured(map[string]any{"x": make(chan int)})
	var out bytes.Buffer
	n, err := write(t, slog.NewJSONHandler(&out, nil), nil, example, bad, example)
	if n != 1 || err == nil || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("got %d, %v and %s", n, err, &out)
	}
	n, err = write(t, slog.DiscardHandler, nil, example, bad, example)
	if n != 3 || err != nil {
		t.Errorf("below the level of the log: got %d, %v", n, err)
	}
}

func TestConfigureRefuses(t *testing.T) {
	for name, value := range map[string]string{"level": "loud", "messages": "x"} {
		err := log.Connector().NewDestination().Configure(t.Context(), map[string]string{name: value})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s %q: got %v", name, value, err)
		}
	}
}

func TestOtherFormatsAreStringsInJSON(t *testing.T) {
	text, err := json.Marshal(log.Encoded(`plain "text"`))
	if err != nil || string(text) != `"plain \"text\""` {
		t.Errorf("got %s, %v", text, err)
	}
}
