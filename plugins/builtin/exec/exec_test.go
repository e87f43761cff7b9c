package exec

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

var connector = Connector(Options{Enabled: true})

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "sink" {
		sink(os.Args[2])
		return
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise every command ends a second later
	os.Exit(m.Run())
}

// sink is a command that appends its lines to a file and confirms each. It refuses lines that contain "bad", and ends
// at "die", once.
func sink(path string) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	for in := bufio.NewReader(os.Stdin); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		if strings.Contains(line, "bad") {
			fmt.Println("too bad")
			continue
		}
		if _, err := os.Stat(path + ".died"); strings.Contains(line, "die") && err != nil {
			_ = os.WriteFile(path+".died", nil, 0o600)
			os.Exit(1)
		}
		fmt.Fprint(f, line)
		fmt.Println("ok")
	}
}

func list(t testing.TB, args ...string) string {
	b, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func sinkSettings(t testing.TB) map[string]string {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"command": list(t, exe, "sink", filepath.Join(t.TempDir(), "out")), "confirm": "true",
		"backoff.min": "1ms"}
}

func written(t testing.TB, settings map[string]string) (payloads []string) {
	var args []string
	if err := json.Unmarshal([]byte(settings["command"]), &args); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(args[2])
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		var r record.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		after, _ := r.After.Raw()
		payloads = append(payloads, string(after))
	}
	return payloads
}

func TestConformance(t *testing.T) {
	t.Parallel()
	plugintest.Run(t, plugintest.Target{
		Connector: connector,
		Source: func(t testing.TB, n int) map[string]string {
			return map[string]string{"command": list(t, "seq", fmt.Sprint(n)), "resume": "skip", "format": "raw"}
		},
		Destination: sinkSettings, Written: written,
	})
}

func TestSettings(t *testing.T) {
	for text, settings := range map[string]map[string]string{
		`"command": is required`:         {},
		"cannot both be set":             {"command": `["a"]`, "shell": "a"},
		`"command": must be a JSON list`: {"command": "tail -F x"},
	} {
		for _, configure := range []func(context.Context, map[string]string) error{
			connector.NewSource().Configure, connector.NewDestination().Configure,
		} {
			if err := configure(t.Context(), settings); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("got %v, want %s", err, text)
			}
		}
	}
}

// read opens a source and reads n records, or until an error.
func read(t *testing.T, settings map[string]string, pos record.Position, n int) (records []record.Record, err error) {
	t.Helper()
	records, _, err = readWith(t, settings, pos, n)
	return records, err
}

// readWith also returns the progress report with the left-out lines.
func readWith(
	t *testing.T, settings map[string]string, pos record.Position, n int,
) (records []record.Record, skipped []progress.Skip, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	s := sdk.Standard(connector).NewSource()
	if err := s.Configure(ctx, settings); err != nil {
		t.Fatal(err)
	}
	if err := s.Open(ctx, pos); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Teardown(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for len(records) < n {
		more, err := s.Read(ctx)
		if err != nil {
			return records, nil, err
		}
		records = append(records, more...)
	}
	return records, s.(sdk.Reporter).Progress().Skipped, nil
}

func TestFormats(t *testing.T) {
	records, err := read(t, map[string]string{"shell": `echo '{"a":1,"b":[null]}'`, "format": "json"}, nil, 1)
	if err != nil || !records[0].After.Equal(record.Structured(map[string]any{"a": int64(1), "b": []any{nil}})) {
		t.Errorf("got %v, %v", records, err)
	}
	for format, line := range map[string]string{"json": "no json", "singer": `{"a":1}`} {
		if _, err := read(t, map[string]string{"shell": "echo '" + line + "'", "format": format}, nil, 1); err == nil ||
			!strings.Contains(err.Error(), "the command prints no") {
			t.Errorf("%s: got %v", format, err)
		}
	}
}

// An invalid line does not block the lines after it, even when the command prints all lines again.
func TestBadLines(t *testing.T) {
	long := "head -c 17000000 /dev/zero | tr '\\0' x"
	for name, settings := range map[string]map[string]string{
		"too long": {"shell": "echo 1; " + long + "; echo; echo 2; exec sleep 60"},
		"no JSON": {"shell": "echo '{\"n\":1}'; echo no; " + long + "; echo; echo '{\"n\":2}'; exec sleep 60",
			"format": "json", "resume": "skip"},
	} {
		records, skipped, err := readWith(t, settings, nil, 2)
		if err != nil || len(records) != 2 {
			t.Fatalf("%s: got %v, %v", name, records, err)
		}
		if len(skipped) == 0 || !strings.HasPrefix(skipped[0].Of, "a line behind record 1") {
			t.Errorf("%s: left out is %v", name, skipped)
		}
		if n, _ := records[1].Key.Raw(); string(n) != "2" {
			t.Errorf("%s: the record behind has the number %s", name, n)
		}
		if settings["resume"] == "" {
			continue
		}
		if again, err := read(t, settings, records[0].Position, 1); err != nil ||
			!again[0].After.Equal(records[1].After) {
			t.Errorf("%s: resumed: got %v, %v", name, again, err)
		}
	}
}

func TestSinger(t *testing.T) {
	tap := `echo '{"type":"SCHEMA","stream":"users"}'
		state=$(cat "$2" 2>/dev/null | tr -d '"')
		echo "{\"type\":\"RECORD\",\"stream\":\"users\",\"record\":{\"state\":\"$state\",\"flags\":$#}}"
		echo '{"type":"STATE","value":{"at":7}}'
		echo '{"type":"RECORD","stream":"users","record":{"id":2}}'; exec sleep 60`
	settings := map[string]string{"command": list(t, "/bin/sh", "-c", tap, "sh", "--state", "{state}"),
		"format": "singer"}
	first, err := read(t, settings, nil, 2)
	if err != nil {
		t.Fatal(err)
	}
	if want := record.Structured(map[string]any{"state": "", "flags": int64(0)}); !first[0].After.Equal(want) ||
		first[0].Metadata.Get(record.KeyCollection) != "users" {
		t.Errorf("got %v", first[0])
	}
	again, err := read(t, settings, first[1].Position, 1)
	if err != nil {
		t.Fatal(err)
	}
	if want := record.Structured(map[string]any{"state": "{at:7}", "flags": int64(2)}); !again[0].After.Equal(want) {
		t.Errorf("resumed: got %v, want the state", again[0].After)
	}
}

func TestRestart(t *testing.T) {
	once := map[string]string{"shell": "echo x; exit 1", "backoff.min": "1ms"}
	if records, err := read(t, once, nil, 3); err != nil || len(records) != 3 {
		t.Errorf("on failure: got %d records, %v", len(records), err)
	}
	once["restart"] = "never"
	if records, err := read(t, once, nil, 3); err == nil || !strings.Contains(err.Error(), "exit status 1") ||
		len(records) != 1 {
		t.Errorf("never: got %d records, %v", len(records), err)
	}
	if records, err := read(t, map[string]string{"shell": "echo x", "restart": "always", "backoff.min": "1ms"}, nil,
		3); err != nil || len(records) != 3 {
		t.Errorf("always: got %d records, %v", len(records), err)
	}
}

func TestLastLineWithoutNewline(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tried")
	dying := `printf 'one\n{"half":' ; test -e ` + path + ` || { touch ` + path + `; exit 1; }; printf '1}'; test -e ` +
		path + `.2 || { touch ` + path + `.2; kill -9 $$; }; exit 0`
	for name, tt := range map[string]struct {
		settings map[string]string
		want     []string
	}{
		"succeeds": {map[string]string{"shell": "printf 'one\ntwo'", "restart": "never"},
			[]string{"one", "two"}},
		"succeeds again": {map[string]string{"shell": "printf 'one\ntwo'", "restart": "always"},
			[]string{"one", "two", "one", "two"}},
		"skipped": {map[string]string{"shell": "echo >>" + path + "; printf 'a\nb'; test $(wc -l <" +
			path + ") -lt 3 || printf '\nc'", "restart": "always", "resume": "skip"}, []string{"a", "b", "c"}},
		"dies in it":           {map[string]string{"shell": dying}, []string{"one", "one", "one", `{"half":1}`}},
		"dies in it, and skip": {map[string]string{"shell": dying, "resume": "skip"}, []string{"one", `{"half":1}`}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, p := range []string{path, path + ".2"} {
				_ = os.Remove(p)
			}
			tt.settings["backoff.min"] = "1ms"
			records, err := read(t, tt.settings, nil, len(tt.want))
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range tt.want {
				if line, _ := records[i].After.Raw(); string(line) != want {
					t.Errorf("line %d is %q, want %q", i+1, line, want)
				}
			}
		})
	}
}

func TestDestination(t *testing.T) {
	settings := sinkSettings(t)
	d := sdk.Standard(connector).NewDestination()
	if err := d.Configure(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	var records []record.Record
	for i, text := range []string{"a", "die", "b", "bad", "c"} {
		records = append(records, record.Record{Position: record.Position{byte('0' + i)},
			Operation: record.OperationCreate,
			Key:       record.Raw(nil), After: record.Structured(map[string]any{"text": text})})
	}
	if n, err := d.Write(t.Context(), records); n != 3 || err == nil || !strings.Contains(err.Error(), "too bad") {
		t.Errorf("got %d, %v", n, err)
	}
	if n, err := d.Write(t.Context(), records[4:]); n != 1 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if err := d.Teardown(t.Context()); err != nil {
		t.Error(err)
	}
	if got := written(t, settings); len(got) != 4 {
		t.Errorf("%d records are written, want 4", len(got))
	}
}

// TestOffByDefault checks that the connector refuses every configuration by default, but still describes itself.
func TestOffByDefault(t *testing.T) {
	c := Connector(Options{})
	s, d := c.NewSource(), c.NewDestination()
	if len(s.Parameters()) == 0 || len(d.Parameters()) == 0 {
		t.Error("it has no parameters")
	}
	settings := map[string]string{"command": `["true"]`}
	for _, err := range []error{s.Configure(t.Context(), settings), d.Configure(t.Context(), settings),
		s.Open(t.Context(), nil), d.Open(t.Context())} {
		if err == nil || !strings.Contains(err.Error(), "connectors.exec.enabled") {
			t.Errorf("got %v", err)
		}
	}
	for _, err := range []error{s.Teardown(t.Context()), d.Teardown(t.Context())} {
		if err != nil {
			t.Error(err)
		}
	}
}

// TestEnvironment checks that commands receive the environment that the host allows.
func TestEnvironment(t *testing.T) {
	t.Setenv("SECRET_OF_THE_AGENT", "x")
	s := Connector(Options{Enabled: true, Env: []string{"GIVEN=yes", "PATH=" + os.Getenv("PATH")}}).NewSource()
	if err := s.Configure(t.Context(),
		s.Parameters().ApplyDefaults(map[string]string{"shell": "echo $GIVEN$SECRET_OF_THE_AGENT"})); err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Teardown(t.Context()) }()
	records, err := s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if line, _ := records[0].After.Raw(); string(line) != "yes" {
		t.Errorf("got %q", line)
	}
}

// counting is a log handler that counts the lines of a command, and the notices about left-out lines.
type counting struct {
	slog.Handler
	lines, leftOut atomic.Int64
}

func (c *counting) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "left out") {
		c.leftOut.Add(1)
	} else {
		c.lines.Add(1)
	}
	return nil
}

func (c *counting) Enabled(context.Context, slog.Level) bool { return true }

func (c *counting) WithAttrs([]slog.Attr) slog.Handler { return c }

// At most 1 MiB of stderr output is logged at once; a notice reports the number of left-out lines.
func TestLogIsThrottled(t *testing.T) {
	t.Parallel()
	log := &counting{Handler: slog.DiscardHandler} // a slow handler would use all of a slow machine's budget
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{Logger: slog.New(log)})
	line := strings.Repeat("x", 8191)
	s := sdk.Standard(connector).NewSource()
	if err := s.Configure(ctx, map[string]string{"shell": "yes " + line +
		" | head -n 1000 >&2; echo written; exec sleep 1000"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Open(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(ctx); err != nil { // the pipe of stderr holds only a few lines now
		t.Fatal(err)
	}
	if err := s.Teardown(ctx); err != nil {
		t.Fatal(err)
	}
	if log.leftOut.Load() == 0 {
		t.Error("the log does not say what is left out")
	}
	if n := log.lines.Load(); n < 125 || n > 500 {
		t.Errorf("%d lines of 8 KiB are logged at once", n)
	}
}
