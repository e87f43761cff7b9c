package s3_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/s3"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// TestSettings checks that the error for a wrong setting names it.
func TestSettings(t *testing.T) {
	good := settings("127.0.0.1:1")
	for setting, more := range map[string][]string{
		"aws.secretAccessKey": {"aws.secretAccessKey", ""},
		"aws.accessKeyId":     {"aws.identity", "role"},
		"aws.endpoint":        {"aws.endpoint", "https://store.example.com/path"},
		"tls.key":             {"tls.cert", "x"},
	} {
		set := maps.Clone(good)
		set[more[0]] = more[1]
		if err := (&s3.Source{}).Configure(t.Context(), set); err == nil ||
			!strings.Contains(err.Error(), `"`+setting+`"`) {
			t.Errorf("%v: got %v", more, err)
		}
	}
	good["format"], good["encryption.kmsKey"] = "json", "k"
	if err := (&s3.Destination{}).Configure(t.Context(), good); err == nil ||
		!strings.Contains(err.Error(), "aws:kms") {
		t.Errorf("got %v", err)
	}
}

// TestEncryption checks that the destination requests AES256, as Conduit's connector does, unless the settings say
// otherwise.
func TestEncryption(t *testing.T) {
	t.Parallel()
	const name = "X-Amz-Server-Side-Encryption"
	for wanted, more := range map[string][]string{
		"AES256 ":   nil,
		" ":         {"encryption", "none"},
		"aws:kms ":  {"encryption", "aws:kms"},
		"aws:kms k": {"encryption", "aws:kms", "encryption.kmsKey", "k"},
	} {
		var written http.Header
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				written = r.Header
			}
		}))
		write(t, destination(t, settings(strings.TrimPrefix(s.URL, "http://"), append(more, "format", "json")...)),
			made("1", "a"))
		if got := written.Get(name) + " " + written.Get(name+"-Aws-Kms-Key-Id"); got != wanted {
			t.Errorf("%v: got %q, want %q", more, got, wanted)
		}
		s.Close()
	}
}

const secret = "topsecret"

// settings returns the settings for the bucket b of the store at addr.
func settings(addr string, more ...string) map[string]string {
	all := map[string]string{"aws.accessKeyId": "conduit", "aws.secretAccessKey": secret, "aws.region": "us-east-1",
		"aws.bucket": "bkt", "aws.endpoint": "http://" + addr}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// quick returns the settings of a source with short delays.
func quick(addr string, more ...string) map[string]string {
	return settings(addr, append([]string{"pollingPeriod", "1ms", "listing.delay", "1s"}, more...)...)
}

// reader reads a source and keeps records for later calls.
type reader struct {
	source sdk.Source
	ahead  []record.Record
}

func source(t *testing.T, settings map[string]string, pos record.Position) *reader {
	t.Helper()
	return &reader{source: plugintest.OpenSource(t, &s3.Source{}, settings, pos)}
}

func (r *reader) read(t *testing.T, n int) []record.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	for len(r.ahead) < n {
		records, err := r.source.Read(ctx)
		if err != nil {
			t.Fatalf("after %s: %v", text(r.ahead), err)
		}
		r.ahead = append(r.ahead, records...)
	}
	all := r.ahead[:n:n]
	r.ahead = r.ahead[n:]
	return all
}

// text formats records like "create:k=v".
func text(records []record.Record) string {
	var all []string
	for i := range records {
		key, _ := records[i].Key.Raw()
		raw, ok := records[i].After.Raw()
		s := fmt.Sprintf("%v:%s", records[i].Operation, key)
		if ok {
			s += "=" + string(raw)
		}
		all = append(all, s)
	}
	return strings.Join(all, " ")
}

func want(t *testing.T, got []record.Record, want string) {
	t.Helper()
	if text(got) != want {
		t.Errorf("got  %s\nwant %s", text(got), want)
	}
}

// destinationOf returns a destination that does not batch.
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

// destination returns an opened destination.
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

func TestMain(m *testing.M) {
	wait.CollectLess()
	m.Run()
}

// once returns settings for exactly-once effect.
func once(addr string) map[string]string {
	return settings(addr, "format", "json", "exactlyOnce", "true", "retry.timeout", "0s")
}
