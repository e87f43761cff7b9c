package standalone_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sandbox"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/standalone"
	"github.com/conduit-agent/conduit/plugins/wire"
	"go.uber.org/goleak"
)

// roleVariable makes this test binary a plugin.
const roleVariable = "WIRE_TEST_ROLE"

func TestMain(m *testing.M) {
	sandbox.Launch()
	role := os.Getenv(roleVariable)
	if os.Getenv(versionVariable) != "" {
		role = "counter"
	}
	if role == "" {
		goleak.VerifyTestMain(m) // exits
	}
	roles[role]()
}

var roles = map[string]func(){
	"counter":     serveCounter,
	"connector":   func() { wire.Serve(testConnector) },
	"version1":    serveVersion1,
	"odd":         serveOdd,
	"fast":        serveFast,
	"eager":       serveEager,
	"great":       serveGreat,
	"host":        hostUntilKilled,
	"chatter":     func() { fmt.Println("hello"); select {} },
	"future":      func() { fmt.Println("1|7|tcp|localhost:1|grpc"); select {} },
	"away":        func() { fmt.Println("1|2|tcp|192.0.2.1:1|grpc"); select {} },
	"odd network": func() { fmt.Println("1|2|udp|localhost:1|grpc"); select {} },
	"certificate": sayCertificate,
	"silent":      func() { select {} },
	"dead":        func() { fmt.Fprintln(os.Stderr, "panic: no disk"); os.Exit(2) },
}

// client returns a client of this binary in the given role.
func client(t *testing.T, role string) (*standalone.Client, *wait.Buffer) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := &wait.Buffer{}
	return &standalone.Client{
		Path: exe, Env: append(os.Environ(), roleVariable+"="+role, "CONDUIT_CONNECTOR_ID=stray",
			"PLUGIN_MULTIPLEX_GRPC=true", "GORACE=atexit_sleep_ms=0"),
		Log: slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}, out
}

// testContext returns a context that ends shortly before the test deadline.
func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	t.Cleanup(cancel)
	return ctx
}

var testConnector = sdk.Connector{
	Name: "test", Summary: "counts", Description: "For tests.", Version: "v1.2.3", Author: "us",
	NewSource:      func() sdk.Source { return &countSource{} },
	NewDestination: func() sdk.Destination { return &listDestination{} },
}

// countSource returns records with the numbers from 1 to count.
type countSource struct {
	sdk.SourceBase
	count, batch, at int
	structured       bool
	acks             string // path of a file
	fail             string // error of Read
}

func (s *countSource) Parameters() sdk.Parameters {
	return sdk.Parameters{
		"count": {Default: "10", Description: "how many", Type: sdk.TypeInt,
			Validations: []sdk.Validation{{Type: sdk.ValidationGreaterThan, Value: "-1"}}},
		"batch":      {Default: "1", Type: sdk.TypeInt},
		"structured": {Default: "false", Type: sdk.TypeBool},
		"acks":       {Type: sdk.TypeString},
		"fail":       {Type: sdk.TypeString},
	}
}

func (s *countSource) Configure(_ context.Context, settings map[string]string) error {
	s.count, _ = strconv.Atoi(settings["count"])
	s.batch, _ = strconv.Atoi(settings["batch"])
	s.structured = settings["structured"] == "true"
	s.acks, s.fail = settings["acks"], settings["fail"]
	return nil
}

func (s *countSource) LifecycleOnCreated(ctx context.Context, settings map[string]string) error {
	sdk.Logger(ctx).Info("created", "id", sdk.EnvFrom(ctx).ConnectorID, "count", settings["count"])
	fmt.Println("printed to stdout")
	return nil
}

func (s *countSource) Open(_ context.Context, pos record.Position) (err error) {
	if len(pos) > 0 {
		s.at, err = strconv.Atoi(string(pos))
	}
	return sdk.Permanent(err)
}

func (s *countSource) Read(ctx context.Context) ([]record.Record, error) {
	switch s.fail {
	case "":
	case "for ever":
		return nil, sdk.Permanent(errors.New(s.fail))
	default:
		return nil, errors.New(s.fail)
	}
	if s.at == s.count {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var records []record.Record
	for ; s.at < s.count && len(records) < s.batch; s.at++ {
		records = append(records, numbered(s.at+1, s.structured))
	}
	return records, nil
}

func numbered(n int, structured bool) record.Record {
	r := record.Record{Position: record.Position(strconv.Itoa(n)), Operation: record.OperationCreate,
		Key: record.Raw([]byte("key")), After: record.Raw([]byte(strconv.Itoa(n)))}
	if structured {
		r.After = record.Structured(map[string]any{"n": int64(n) + 1<<60})
	}
	return r
}

func (s *countSource) Ack(_ context.Context, positions []record.Position) error {
	return appendLines(s.acks, positions)
}

func appendLines(path string, lines []record.Position) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for _, l := range lines {
		if _, err := fmt.Fprintf(f, "%s\n", l); err != nil {
			return err
		}
	}
	return f.Close()
}

// listDestination appends positions to a file. It refuses records that contain "bad", crashes at "crash", and cannot
// write "full".
type listDestination struct {
	sdk.DestinationBase
	path string
}

func (d *listDestination) Parameters() sdk.Parameters {
	return sdk.Parameters{"path": {Type: sdk.TypeFile, Validations: []sdk.Validation{{Type: sdk.ValidationRequired}}}}
}

func (d *listDestination) Configure(_ context.Context, settings map[string]string) error {
	d.path = settings["path"]
	return nil
}

func (d *listDestination) Open(context.Context) error {
	_, err := os.Stat(filepath.Dir(d.path))
	return err
}

func (d *listDestination) Write(_ context.Context, records []record.Record) (int, error) {
	for i, r := range records {
		b, _ := r.After.Raw()
		switch string(b) {
		case "bad":
			return i, fmt.Errorf("record %s is bad", r.Position)
		case "full":
			return i, sdk.Unavailable(errors.New("disk full"))
		case "crash":
			go panic("out of ideas")
			select {}
		}
		line := r.Position
		if m, ok := r.After.Structured(); ok {
			line = fmt.Appendf(nil, "%T(%v)", m["n"], m["n"])
		}
		if err := appendLines(d.path, []record.Position{line}); err != nil {
			return i, err
		}
	}
	return len(records), nil
}

func (d *listDestination) LifecycleOnDeleted(context.Context, map[string]string) error {
	return errors.New("nothing to delete")
}

// lines returns the lines of a file.
func lines(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(strings.ReplaceAll(string(b), "\n", " "))
}

// sequence returns the numbers in the given range.
func sequence(from, to int) string {
	var s []string
	for i := from; i <= to; i++ {
		s = append(s, strconv.Itoa(i))
	}
	return strings.Join(s, " ")
}
