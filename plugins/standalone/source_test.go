package standalone_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/standalone"
)

func TestSpecify(t *testing.T) {
	for _, role := range []string{"connector", "version1"} {
		t.Run(role, func(t *testing.T) {
			c, _ := client(t, role)
			spec, err := c.Specify(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			if spec.Name != "test" || spec.Summary != "counts" || spec.Description != "For tests." ||
				spec.Version != "v1.2.3" || spec.Author != "us" {
				t.Errorf("got %+v", spec)
			}
			count := spec.Source["count"]
			if count.Default != "10" || count.Description != "how many" || count.Type != sdk.TypeInt ||
				len(count.Validations) != 1 ||
				count.Validations[0] != (sdk.Validation{Type: sdk.ValidationGreaterThan, Value: "-1"}) {
				t.Errorf("count: got %+v", count)
			}
			path := spec.Destination["path"]
			if path.Type != sdk.TypeFile || len(path.Validations) != 1 ||
				path.Validations[0].Type != sdk.ValidationRequired {
				t.Errorf("path: got %+v", path)
			}
		})
	}
}

// readAll reads until the end and acknowledges everything.
func readAll(ctx context.Context, t *testing.T, s *standalone.Source) []record.Record {
	t.Helper()
	var all []record.Record
	for {
		b, err := s.Read(ctx)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if b.Len() == 0 {
			t.Fatal("empty batch")
		}
		var positions []record.Position
		for i := range b.Len() {
			positions = append(positions, b.Position(i))
		}
		if err := s.Ack(ctx, positions); err != nil {
			t.Fatal(err)
		}
		records, err := b.Records()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, records...)
	}
}

func TestSource(t *testing.T) {
	for _, role := range []string{"connector", "version1"} {
		t.Run(role, func(t *testing.T) {
			ctx := testContext(t)
			c, out := client(t, role)
			s, err := c.Source(ctx, "pipe:src")
			if err != nil {
				t.Fatal(err)
			}
			acks := filepath.Join(t.TempDir(), "acks")
			settings := map[string]string{"count": "500", "batch": "7", "acks": acks}
			for _, step := range []func() error{
				func() error { return s.Configure(ctx, settings) },
				func() error { return s.LifecycleOnCreated(ctx, settings) },
				func() error { return s.Open(ctx, record.Position("100")) },
			} {
				if err := step(); err != nil {
					t.Fatal(err)
				}
			}
			records := readToTheStop(ctx, t, s)
			if role == "connector" {
				wantLogs(t, out) // before Teardown, which may lose output in transit
			}
			if err := s.Teardown(ctx); err != nil {
				t.Fatal(err)
			}
			if got, want := lines(t, acks), sequence(101, 100+len(records)); got != want {
				t.Errorf("acknowledged %s, want %s", got, want)
			}
			for _, r := range records {
				if r.Metadata.Get(record.KeySourceConnectorID) != "pipe:src" ||
					r.Metadata.Get(record.KeyReadAt) == "" || r.Operation != record.OperationCreate {
					t.Fatalf("got %+v", r)
				}
			}
		})
	}
}

// readToTheStop reads a batch, acknowledges it, stops the source, and returns all records.
func readToTheStop(ctx context.Context, t *testing.T, s *standalone.Source) []record.Record {
	t.Helper()
	first, err := s.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var positions []record.Position
	for i := range first.Len() {
		positions = append(positions, first.Position(i))
	}
	if err := s.Ack(ctx, positions); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(ctx) }()
	rest := readAll(ctx, t, s)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	records, err := first.Records()
	if err != nil {
		t.Fatal(err)
	}
	return append(records, rest...)
}

// wantLogs waits for the log lines and the output of the connector, with the attributes that identify it.
func wantLogs(t *testing.T, out *wait.Buffer) {
	t.Helper()
	wait.For(t, "logs arrive", func() bool {
		return strings.Contains(out.String(), "created") && strings.Contains(out.String(), "printed to stdout")
	}, out.String)
	if got := out.String(); !strings.Contains(got, "level=INFO msg=created") || !strings.Contains(got, "id=pipe:src") ||
		!strings.Contains(got, "component=plugin") {
		t.Errorf("logs: %s", got)
	}
}

func TestSourceReadsToTheLastPosition(t *testing.T) {
	ctx := testContext(t)
	c, out := client(t, "connector")
	s := openSource(ctx, t, c, map[string]string{"count": "3000", "batch": "1",
		"acks": filepath.Join(t.TempDir(), "acks")})
	var got []string
	for len(got) < 3000 {
		b, err := s.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Len() {
			got = append(got, string(b.Position(i)))
		}
	}
	if strings.Join(got, " ") != sequence(1, 3000) {
		t.Error("records are missing or out of order")
	}
	if err := s.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if b, err := s.Read(ctx); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, %v, want io.EOF", b, err)
	}
	if strings.Contains(out.String(), "last position") {
		t.Errorf("the last position was unknown: %s", out)
	}
}

func openSource(
	ctx context.Context, t *testing.T, c *standalone.Client, settings map[string]string,
) *standalone.Source {
	t.Helper()
	s, err := c.Source(ctx, "pipe:src")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Teardown(context.WithoutCancel(ctx)) })
	if err := s.Configure(ctx, settings); err != nil {
		t.Fatal(err)
	}
	if err := s.Open(ctx, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSourceWithNothingToRead(t *testing.T) {
	ctx := testContext(t)
	c, _ := client(t, "connector")
	s := openSource(ctx, t, c, map[string]string{"count": "0"})
	short, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if b, err := s.Read(ctx); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, %v, want io.EOF", b, err)
	}
	s = openSource(ctx, t, c, map[string]string{"count": "0"})
	if b, err := s.Read(short); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v, want context.Canceled", b, err)
	}
}

func TestConfigureSaysWhatIsWrong(t *testing.T) {
	ctx := testContext(t)
	c, _ := client(t, "connector")
	s, err := c.Source(ctx, "pipe:src")
	if err != nil {
		t.Fatal(err)
	}
	err = s.Configure(ctx, map[string]string{"count": "many"})
	if err == nil || !strings.Contains(err.Error(), "count") || !strings.Contains(err.Error(), "pipe:src") {
		t.Errorf("got %v", err)
	}
	if err := s.Teardown(ctx); err != nil {
		t.Error(err)
	}
}

func TestSchemas(t *testing.T) {
	ctx := testContext(t)
	registry := &schema.Memory{}
	c, _ := client(t, "connector")
	c.Schemas, c.TempDir = &standalone.SchemaServer{Registry: registry}, t.TempDir()
	s := openSource(ctx, t, c, map[string]string{"count": "2", "structured": "true"})
	b, err := s.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	records, err := b.Records()
	if err != nil {
		t.Fatal(err)
	}
	if got := records[0].Metadata.Get(record.KeyPayloadSchemaSubject); got != "pipe:src:payload" {
		t.Errorf("subject: got %q", got)
	}
	cache := &schema.Cache{Registry: registry}
	if err := cache.DecodeRecord(ctx, &records[0], schema.Parts{Payload: true}); err != nil {
		t.Fatal(err)
	}
	if want := record.Structured(map[string]any{"n": int64(1)<<60 + 1}); !records[0].After.Equal(want) {
		t.Errorf("got %v, want %v", records[0].After, want)
	}
	if err := s.Teardown(ctx); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(c.TempDir); err != nil || len(left) > 0 {
		t.Errorf("it leaves behind %v, %v", left, err)
	}
}

// A connector can mark an error as permanent over the wire.
func TestPermanentErrors(t *testing.T) {
	permanent := func(err error) bool {
		var p interface{ Permanent() bool }
		return errors.As(err, &p) && p.Permanent()
	}
	for _, here := range []bool{false, true} {
		ctx := testContext(t)
		c, _ := client(t, "connector")
		if here {
			c.Connector = &testConnector
		}
		open := func(pos string, settings map[string]string) (*standalone.Source, error) {
			s, err := c.Source(ctx, "pipe:src")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Teardown(context.Background()) })
			if err := s.Configure(ctx, settings); err != nil {
				t.Fatal(err)
			}
			return s, s.Open(ctx, record.Position(pos))
		}
		settings := map[string]string{"count": "1", "batch": "1", "acks": filepath.Join(t.TempDir(), "acks")}
		if _, err := open("not a number", settings); !permanent(err) || !strings.Contains(err.Error(), "not a number") {
			t.Errorf("served here %v: a position that cannot be read gives %v, permanent %v", here, err, permanent(err))
		}
		settings["fail"] = "for ever"
		s, err := open("", settings)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Read(ctx); !permanent(err) || !strings.Contains(err.Error(), "for ever") {
			t.Errorf("served here %v: reading gives %v, permanent %v", here, err, permanent(err))
		}
		settings["fail"] = "for now"
		if s, err = open("", settings); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Read(ctx); err == nil || permanent(err) {
			t.Errorf("served here %v: reading gives %v, permanent %v", here, err, permanent(err))
		}
	}
}
