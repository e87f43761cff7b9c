package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/slogtest"
	"time"
)

var testTime = time.Date(2026, 11, 20, 10, 34, 54, 123e6, time.UTC)

func logLine(t *testing.T, format string, color bool, message string, attrs ...slog.Attr) string {
	t.Helper()
	var b bytes.Buffer
	r := slog.NewRecord(testTime, slog.LevelInfo, message, 0)
	r.AddAttrs(attrs...)
	if err := NewHandler(&b, format, "info", color).Handle(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

type ownJSON struct{}

func (ownJSON) MarshalJSON() ([]byte, error) { return []byte(`{"own":"a b"}`), nil }

func TestLogLines(t *testing.T) {
	record := json.RawMessage(`{"key":"a b","payload":{"before":null}}`)
	tests := []struct {
		name       string
		message    string
		attr       slog.Attr
		text, json string // after the level, the time and the message
	}{
		{"plain", "started", slog.String("component", "engine"), ` started component=engine`, `"component":"engine"`},
		{"no message", "", slog.Int("n", -3), ` n=-3`, `"n":-3`},
		{"quoted", "m", slog.String("s", "a b"), ` m s="a b"`, `"s":"a b"`},
		{"empty", "m", slog.String("s", ""), ` m s=""`, `"s":""`},
		{"quotes", "m", slog.String("s", `say "x"`), ` m s="say \"x\""`, `"s":"say \"x\""`},
		{"unicode", "m", slog.String("s", "Zürich"), ` m s=Zürich`, `"s":"Zürich"`},
		{"unicode then quote", "m", slog.String("s", `ü"`), ` m s="ü\""`, `"s":"ü\""`},
		{"forged line", "m", slog.String("s", "x\n2026 ERR y"), ` m s="x\n2026 ERR y"`, `"s":"x\n2026 ERR y"`},
		{"escape sequence", "m", slog.String("s", "\x1b[2J"), ` m s="\x1b[2J"`, `"s":"\u001b[2J"`},
		{"not UTF-8", "m", slog.String("s", "a\xff"), ` m s="a\xff"`, `"s":"a\ufffd"`},
		{"error", "m", slog.Any("err", errors.New("cannot open: no")), ` m err="cannot open: no"`,
			`"err":"cannot open: no"`},
		{"raw JSON", "", slog.Any("record", record), ` record=` + string(record), `"record":` + string(record)},
		{"raw JSON on lines", "", slog.Any("record", json.RawMessage("{\n\"a\": 1,\r\n\"b\": \"\u00c2\u0085\"}")),
			" record={ \"a\": 1,  \"b\": \"\u00c2\\u0085\"}", "\"record\":{ \"a\": 1,  \"b\": \"\u00c2\\u0085\"}"},
		{"value with JSON", "", slog.Any("record", ownJSON{}), ` record={"own":"a b"}`, `"record":{"own":"a b"}`},
		{"group", "m", slog.Group("g", slog.Bool("a", true), slog.Float64("b", 1.5)), ` m g.a=true g.b=1.5`,
			`"g.a":true,"g.b":1.5`},
		{"duration", "m", slog.Duration("d", 90*time.Second), ` m d=1m30s`, `"d":"1m30s"`},
		{"time", "m", slog.Any("at", &testTime), ` m at=2026-11-20T10:34:54Z`, `"at":"2026-11-20T10:34:54.123Z"`},
		{"slice", "m", slog.Any("l", []string{"a", "b"}), ` m l="[a b]"`, `"l":["a","b"]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, want := logLine(t, "cli", false, tt.message, tt.attr), "2026-11-20T10:34:54+00:00 INF"+tt.text+
				"\n"; got != want {
				t.Errorf("text\n got %q\nwant %q", got, want)
			}
			want := `{"level":"info","time":"2026-11-20T10:34:54.123000Z","message":"` + tt.message + `",` + tt.json +
				"}\n"
			got := logLine(t, "json", false, tt.message, tt.attr)
			if got != want {
				t.Errorf("json\n got %q\nwant %q", got, want)
			}
			if !json.Valid([]byte(got)) {
				t.Errorf("not JSON: %s", got)
			}
		})
	}
}

func TestLogMessageCannotForgeLines(t *testing.T) {
	got := logLine(t, "cli", false, "a\nb")
	if want := `2026-11-20T10:34:54+00:00 INF "a\nb"` + "\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLogColor(t *testing.T) {
	got := logLine(t, "cli", true, "m", slog.Int("n", 1))
	if want := "\x1b[2m2026-11-20T10:34:54+00:00\x1b[0m \x1b[32mINF\x1b[0m m \x1b[2mn=1\x1b[0m\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	got = logLine(t, "cli", true, "", slog.Any("err", errors.New("gone")), slog.String("record", "r"))
	if want := " \x1b[2mrecord=\x1b[0mr \x1b[2merr=\x1b[0m\x1b[31mgone\x1b[0m\n"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want the end %q", got, want)
	}
}

func TestRecordIsFirstFieldInText(t *testing.T) {
	for format, want := range map[string]string{
		"cli":     ` INF m record={"a":1} component=plugin n=1` + "\n",
		"journal": `<6>INF m record={"a":1} component=plugin n=1` + "\n",
		"json":    `"message":"m","component":"plugin","n":1,"record":{"a":1}}` + "\n",
	} {
		var b bytes.Buffer
		slog.New(NewHandler(&b, format, "info", false)).With("component", "plugin").Info("m", "n", 1, "record",
			json.RawMessage(`{"a":1}`))
		if got := b.String(); !strings.HasSuffix(got, want) {
			t.Errorf("%s: got %q, want the end %q", format, got, want)
		}
	}
}

func TestLogForTheJournalHasPriorities(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(NewHandler(&b, "journal", "trace", false))
	log.Debug("a")
	log.Info("b", "n", 1)
	log.Warn("c")
	log.Error("d")
	if got, want := b.String(), "<7>DBG a\n<6>INF b n=1\n<4>WRN c\n<3>ERR d\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLogLevels(t *testing.T) {
	for name, level := range logLevels {
		t.Run(name, func(t *testing.T) {
			h := NewHandler(io.Discard, "cli", name, false)
			if !h.Enabled(t.Context(), level) || h.Enabled(t.Context(), level-1) {
				t.Errorf("level %v is not the lowest enabled", level)
			}
			if got := levelNames[rank(level)].long; got != name {
				t.Errorf("named %q", got)
			}
		})
	}
}

// The handler behaves like slog's, except that groups are dotted keys, which parsing undoes.
func TestLogHandlerConforms(t *testing.T) {
	var b bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		b.Reset()
		return NewHandler(&b, "json", "info", false)
	}, func(t *testing.T) map[string]any {
		var flat map[string]any
		if err := json.Unmarshal(b.Bytes(), &flat); err != nil {
			t.Fatal(err)
		}
		flat["msg"] = flat["message"]
		delete(flat, "message")
		return nest(flat)
	})
}

func nest(flat map[string]any) map[string]any {
	nested := map[string]any{}
	for key, v := range flat {
		parts := strings.Split(key, ".")
		m := nested
		for _, p := range parts[:len(parts)-1] {
			if m[p] == nil {
				m[p] = map[string]any{}
			}
			m = m[p].(map[string]any)
		}
		m[parts[len(parts)-1]] = v
	}
	return nested
}

func BenchmarkLog(b *testing.B) {
	record := json.RawMessage(`{"key":"Y29iYWx0aWM=","metadata":{` +
		strings.Repeat(`"opencdc.metadata.key":"1726734894822378094",`, 7) +
		`"opencdc.version":"v1"},"operation":"create","position":"MQ=="}`)
	for _, format := range []string{"cli", "json"} {
		b.Run(format, func(b *testing.B) {
			h := NewHandler(io.Discard, format, "info", false)
			log := slog.New(h).With("component", "plugin", "connector_id", "demo:log", "plugin_name", "builtin:log")
			b.ReportAllocs()
			for b.Loop() {
				log.LogAttrs(b.Context(), slog.LevelInfo, "", slog.Any("record", record))
			}
		})
	}
}

func TestHasControlFindsEveryByteAnywhere(t *testing.T) {
	for c := range 256 {
		for at := range 17 {
			b := []byte("abcdefgh~ {}\"\\xyz12")
			b[at] = byte(c)
			if got, want := hasControl(b), c < ' ' || c >= 0x7f; got != want {
				t.Fatalf("byte %#x at %d: %v", c, at, got)
			}
		}
	}
}

func TestLogAttributesOfSiblingsStayApart(t *testing.T) {
	var b bytes.Buffer
	parent := slog.New(NewHandler(&b, "cli", "info", false)).With("parent", "a long enough value")
	first, second := parent.With("first", 1), parent.With("second", 2)
	for log, want := range map[*slog.Logger]string{first: "first=1\n", second: "second=2\n"} {
		b.Reset()
		log.Info("m")
		if !strings.HasSuffix(b.String(), want) {
			t.Errorf("got %q, want the end %q", b.String(), want)
		}
	}
}

// TestErrorsAreBrief logs long errors, as errors and as texts. Other attributes are unchanged.
func TestErrorsAreBrief(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, a := range map[string]slog.Attr{"error": slog.Any("err", errors.New(long)),
		"another key": slog.Any("cause", errors.New(long)),
		"text":        slog.String("error", long),
		"in a group":  slog.Group("plugin", slog.Any("err", errors.New(long)))} {
		for _, format := range []string{"json", "cli"} {
			if line := logLine(t, format, false, "m", a); len(line) > 5<<10 || !strings.Contains(line, "more bytes)") {
				t.Errorf("%s as %s: a line of %d bytes", name, format, len(line))
			}
		}
	}
	if line := logLine(t, "json", false, "m", slog.String("record", long)); len(line) < 1<<20 {
		t.Errorf("a record of %d bytes is cut", len(line))
	}
	if line := logLine(t, "json", false, long); len(line) > 65<<10 {
		t.Errorf("a message of %d bytes is logged", len(line))
	}
}
