package s3_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/s3"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// payloads returns the payloads in the JSON objects of a bucket, in the order of the objects' names.
func payloads(t testing.TB, s *server.S3, bucket string) (all []string) {
	t.Helper()
	files := s.Files(t, bucket)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".json") {
			continue
		}
		for line := range strings.Lines(files[name]) {
			var l struct {
				Payload       string
				PayloadBase64 []byte
			}
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err)
			}
			if l.PayloadBase64 != nil {
				l.Payload = string(l.PayloadBase64)
			}
			all = append(all, l.Payload)
		}
	}
	return all
}

// destinationOf returns a destination that writes at once.
func destinationOf(t testing.TB, settings map[string]string) sdk.Destination {
	t.Helper()
	settings["sdk.batch.size"], settings["sdk.batch.delay"] = "0", "0"
	d := sdk.Standard(s3.Connector()).NewDestination()
	if err := d.Configure(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Teardown(context.WithoutCancel(t.Context())) })
	return d
}

// destination returns an open destination.
func destination(t testing.TB, settings map[string]string) sdk.Destination {
	t.Helper()
	d := destinationOf(t, settings)
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

func made(position, payload string) record.Record {
	return record.Record{Position: record.Position(position), Operation: record.OperationCreate,
		Key:      record.Raw([]byte("k<")),
		Metadata: record.NewMetadata(map[string]string{"a": "1", record.KeySourceConnectorID: "p:s"}),
		After:    record.Raw([]byte(payload))}
}

func write(t testing.TB, d sdk.Destination, records ...record.Record) {
	t.Helper()
	if n, err := d.Write(t.Context(), records); n != len(records) || err != nil {
		t.Fatalf("wrote %d of %d: %v", n, len(records), err)
	}
}

// one returns name and content of the only object with the suffix.
func one(t testing.TB, s *server.S3, suffix string) (name, content string) {
	t.Helper()
	for n, c := range s.Files(t, "bkt") {
		if strings.HasSuffix(n, suffix) {
			if name != "" {
				t.Fatalf("there are %s and %s", name, n)
			}
			name, content = n, c
		}
	}
	return name, content
}

// TestFormats writes objects as Conduit's connector does, and lines in any format.
func TestFormats(t *testing.T) {
	load.Parallel(t, load.Server)
	s := store(t)
	structured, removed := made("2", ""), made("3", "")
	structured.After = record.Structured(map[string]any{"x": 1})
	removed.Operation, removed.Before, removed.After = record.OperationDelete, removed.After, record.Data{}
	records := []record.Record{made("1", "a\xff"), structured, removed}
	write(t, destination(t, settings(s.Addr, "format", "json", "prefix", "logs/")), records...)
	name, content := one(t, s, ".json")
	const end = `,"Key":"k\u003c","Metadata":{"a":"1","conduit.source.connector.id":"p:s"}}` + "\n"
	if wanted := `{"Operation":"create","Position":"1","Payload":"a\ufffd","PayloadBase64":"Yf8="` + end +
		`{"Operation":"create","Position":"2","Payload":"{\"x\":1}"` + end +
		`{"Operation":"delete","Position":"3","Payload":""` + end; !strings.HasPrefix(name, "logs/") || content != wanted {
		t.Errorf("%s has\n%s", name, content)
	}
	write(t, destination(t, settings(s.Addr, "format", "parquet")), records...)
	_, content = one(t, s, ".parquet")
	cat := exec.Command(server.ParquetCat(t))
	cat.Stdin = strings.NewReader(content)
	out, err := cat.CombinedOutput()
	row := func(operation, payload, position string) string {
		return fmt.Sprintf(
			`{"key":"azw=","metadata":[{"key":"a","value":"1"},{"key":"conduit.source.connector.id","value":"p:s"}],`+
				`"operation":%q,"payload":%q,"position":%q}`+"\n", operation, payload, position)
	}
	if wanted := row("Y3JlYXRl", "Yf8=", "MQ==") + row("Y3JlYXRl", "eyJ4IjoxfQ==", "Mg==") + row("ZGVsZXRl", "",
		"Mw=="); err != nil || string(out) != wanted {
		t.Errorf("%v: %s", err, out)
	}
	lines := destination(t, settings(s.Addr, "format", "lines", "compression", "gzip", "sdk.record.format", "template",
		"sdk.record.format.options", `{{ printf "%s" .Payload.After }}`))
	if n, err := lines.Write(t.Context(), []record.Record{made("1", "a"), made("2", "b"), made("3", "c\nd")}); n != 2 ||
		err == nil || !strings.Contains(err.Error(), "line break") {
		t.Errorf("wrote %d: %v", n, err)
	}
	_, content = one(t, s, ".jsonl.gz")
	if got := unzip(t, content); got != "a\nb\n" {
		t.Errorf("got %q", got)
	}
	header, _, err := s.Do(t.Context(), "HEAD", "/bkt/"+name, "", nil, nil)
	if err != nil || header.Get("Content-Type") != "application/json" ||
		header.Get("Content-Disposition") != "attachment" {
		t.Errorf("header is %v: %v", header, err)
	}
}

func unzip(t testing.TB, content string) string {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader([]byte(content)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSplits writes objects no larger than the settings say.
func TestSplits(t *testing.T) {
	load.Parallel(t, load.Server)
	s := store(t)
	d := destination(t, settings(s.Addr, "format", "json", "object.maxBytes", "300"))
	var records []record.Record
	for range 10 {
		records = append(records, made("1", "x"))
	}
	write(t, d, records...)
	if files := s.Files(t, "bkt"); len(files) != 5 {
		t.Errorf("there are %d objects", len(files))
	}
}

// once are settings for exactly-once delivery.
func once(addr string) map[string]string {
	return settings(addr, "format", "json", "exactlyOnce", "true", "retry.timeout", "0s")
}

// TestExactlyOnce writes repeated records only if they were not written before, regardless of their division into
// batches and of the outcome of the previous run.
func TestExactlyOnce(t *testing.T) {
	load.Parallel(t, load.Server)
	s := store(t)
	proxy := network.NewProxy(t, s.Addr)
	d := destination(t, once(s.Addr))
	write(t, d, made("1", "1"), made("2", "2"), made("2", "2 again"))
	write(t, d, made("3", "3"))
	d = destination(t, once(proxy.Addr()))
	write(t, d, made("2", "2"), made("2", "2 again"), made("3", "3"), made("4", "4"))
	proxy.Refuse(true)
	proxy.Cut()
	n, err := d.Write(t.Context(), []record.Record{made("5", "5")})
	if lost, ok := err.(interface{ Lost() bool }); n != 0 || !ok || !lost.Lost() {
		t.Errorf("wrote %d: %v, want no record's fault", n, err)
	}
	// Two concurrent runs each detect the writes of the other.
	a, b := destination(t, once(s.Addr)), destination(t, once(s.Addr))
	write(t, a, made("4", "4"), made("5", "5"))
	write(t, b, made("4", "4"), made("5", "5"), made("6", "6"))
	write(t, a, made("7", "7"))
	if got := strings.Join(payloads(t, s, "bkt"), ","); got != "1,2,2 again,3,4,5,6,7" {
		t.Errorf("got %s", got)
	}
	if err := d.LifecycleOnDeleted(t.Context(), once(s.Addr)); err != nil {
		t.Fatal(err)
	}
	for name := range s.Files(t, "bkt") {
		if strings.HasPrefix(name, ".conduit-positions") {
			t.Errorf("%s is left", name)
		}
	}
	write(t, destination(t, once(s.Addr)), made("1", "1"))
	if got := payloads(t, s, "bkt"); len(got) != 9 || got[8] != "1" {
		t.Errorf("a connector created again wrote %v", got)
	}
}

// TestUnfinished checks that only written objects count, and announced ones do not.
func TestUnfinished(t *testing.T) {
	load.Parallel(t, load.Server)
	s := store(t)
	write(t, destination(t, once(s.Addr)), made("1", "1"))
	name, _ := one(t, s, ".json")
	s.Must(t, "DELETE", "/bkt/"+name, "", "") // as if the previous run was killed before it wrote
	write(t, destination(t, once(s.Addr)), made("1", "1"))
	if again, _ := one(t, s, ".json"); again != name {
		t.Errorf("object %s: want the number that was announced, %s", again, name)
	}
}

// TestCheckpoints keeps few entries, which contain all positions.
func TestCheckpoints(t *testing.T) {
	load.Parallel(t, load.Server)
	s := store(t)
	d := destination(t, once(s.Addr))
	const n = 600
	for i := range n {
		write(t, d, made(string(rune('a'+i)), "x"))
	}
	entries := 0
	for name := range s.Files(t, "bkt") {
		if strings.HasPrefix(name, ".conduit-positions") {
			entries++
		}
	}
	if entries > 260 {
		t.Errorf("there are %d entries", entries)
	}
	d = destination(t, once(s.Addr))
	for i := range n {
		write(t, d, made(string(rune('a'+i)), "x"))
	}
	if got := payloads(t, s, "bkt"); len(got) != n {
		t.Errorf("there are %d records, want %d", len(got), n)
	}
}
