package s3_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/s3"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func TestMain(m *testing.M) {
	wait.CollectLess()
	proxy := httptest.NewServer(&hosts)
	if err := os.Setenv("HTTP_PROXY", proxy.URL); err != nil {
		panic(err)
	}
	m.Run()
}

const secret = "topsecret"

// settings reach the bucket b of the store at addr.
func settings(addr string, more ...string) map[string]string {
	all := map[string]string{"aws.accessKeyId": "conduit", "aws.secretAccessKey": secret, "aws.region": "us-east-1",
		"aws.bucket": "bkt", "aws.endpoint": "http://" + addr}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// quick are settings of a source with short polling intervals.
func quick(addr string, more ...string) map[string]string {
	return settings(addr, append([]string{"pollingPeriod", "50ms", "listing.delay", "1s"}, more...)...)
}

// store returns a running store with the bucket bkt.
func store(t testing.TB) *server.S3 {
	t.Helper()
	s := server.StartS3(t, secret, "")
	s.Must(t, "PUT", "/bkt", "", "")
	return s
}

// reader reads records from a source and keeps those beyond the requested number for the next call.
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

// TestSource reads the existing objects of a bucket without versions, and then new ones.
func TestSource(t *testing.T) {
	load.Parallel(t, load.Server)
	s := store(t)
	s.Must(t, "PUT", "/bkt/x/b", "", "2")
	header := http.Header{
		"Content-Type": {"text/plain"}, "X-Amz-Meta-Tenant": {"acme"}, "X-Amz-Meta-Opencdc.collection": {"no"},
	}
	if _, _, err := s.Do(t.Context(), "PUT", "/bkt/x/a%20%2B%C3%A4", "", header, []byte("1")); err != nil {
		t.Fatal(err)
	}
	s.Must(t, "PUT", "/bkt/y", "", "not this one")
	r := source(t, quick(s.Addr, "prefix", "x/"), nil)
	got := r.read(t, 2)
	if key, _ := got[0].Key.Raw(); string(key) == "x/b" { // it was written in an earlier second
		got[0], got[1] = got[1], got[0]
	}
	if strings.Contains(text(got), "create") { // they were too new for the snapshot
		want(t, got, "create:x/a +ä=1 create:x/b=2")
	} else {
		want(t, got, "snapshot:x/a +ä=1 snapshot:x/b=2")
	}
	md := got[0].Metadata.Map()
	delete(md, "s3.lastModified")
	wanted := map[string]string{"s3.header.contentType": "text/plain", "tenant": "acme", "s3.bucket": "bkt",
		"s3.etag": "c4ca4238a0b923820dcc509a6f75849b"}
	if !maps.Equal(md, wanted) {
		t.Errorf("metadata is %v", md)
	}
	s.Must(t, "PUT", "/bkt/x/b", "", "3")
	s.Must(t, "PUT", "/bkt/x/c", "", "4")
	s.Must(t, "DELETE", "/bkt/x/a%20%2B%C3%A4", "", "")
	want(t, r.read(t, 2), "create:x/b=3 create:x/c=4")
}

// TestVersions reads every version and deletion in a bucket with versions, including versions that were replaced before
// they were listed. When a newer version arrives, this store changes the time of the older one to whole seconds, so a
// deletion may come before the version that it removes.
func TestVersions(t *testing.T) {
	load.Parallel(t, load.Server)
	s := store(t)
	s.Keep(t, "bkt")
	r := source(t, quick(s.Addr), nil)
	for _, v := range []string{"1", "2", "3"} {
		s.Must(t, "PUT", "/bkt/k", "", v)
	}
	s.Must(t, "DELETE", "/bkt/k", "", "")
	all := r.read(t, 4)
	got := strings.Fields(text(all))
	if at := slices.Index(got, "delete:k"); at < 1 ||
		strings.Join(slices.Delete(got, at, at+1), " ") != "create:k=1 update:k=2 update:k=3" {
		t.Errorf("got %s", text(all))
	}
	if !slices.IsSortedFunc(all, func(a, b record.Record) int { return modified(t, &a).Compare(modified(t, &b)) }) {
		t.Errorf("%s are not in the order of their times", text(all))
	}
	if v := all[1].Metadata.Get("s3.version"); v == "" || v == all[2].Metadata.Get("s3.version") {
		t.Errorf("version is %q", v)
	}
	want(t, source(t, quick(s.Addr), all[1].Position).read(t, 2), text(all[2:]))
}

// modified returns the time of a version.
func modified(t *testing.T, r *record.Record) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, r.Metadata.Get("s3.lastModified"))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestLateInGateway reads an object whose name appears in a real store after a later object was read.
func TestLateInGateway(t *testing.T) {
	load.Parallel(t, load.Server)
	s := store(t)
	s.Must(t, "PUT", "/bkt/b", "", "1")
	r := source(t, quick(s.Addr), nil)
	all := r.read(t, 1)
	s.Link(t, "bkt", "late", "2", time.Now().Add(-30*time.Second))
	all = append(all, r.read(t, 1)...)
	s.Must(t, "PUT", "/bkt/c", "", "3")
	all = append(all, r.read(t, 1)...)
	if got := strings.ReplaceAll(text(all), "snapshot", "create"); got != "create:b=1 create:late=2 create:c=3" {
		t.Errorf("got %s", got)
	}
	want(t, source(t, quick(s.Addr), all[1].Position).read(t, 1), text(all[2:]))
}

// TestRefused checks the errors of wrong settings: they must not show secrets.
func TestRefused(t *testing.T) {
	load.Parallel(t, load.Server)
	s := store(t)
	for wanted, set := range map[string]map[string]string{
		`bucket "nothing" does not exist`: settings(s.Addr, "aws.bucket", "nothing"),
		`cannot reach bucket "bkt": the store responded with`: settings(s.Addr, "aws.secretAccessKey",
			"wrong-topsecret"),
		`cannot reach bucket "bkt": dial tcp 127.0.0.1:1: `:    settings("127.0.0.1:1"),
		`the position belongs to bucket "bkt", but aws.bucket`: settings(s.Addr, "aws.bucket", "other"),
	} {
		src := &s3.Source{}
		if err := src.Configure(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		var pos record.Position
		if set["aws.bucket"] == "other" {
			pos = record.Position(`{"modified":"2026-01-02T03:04:05Z","key":"k","@resume":1,"bucket":"bkt"}`)
		}
		if err := src.Open(t.Context(), pos); err == nil || !strings.Contains(err.Error(), wanted) ||
			strings.Contains(err.Error(), "topsecret") {
			t.Errorf("got %v, want %s", err, wanted)
		}
		_ = src.Teardown(t.Context())
	}
}

// TestOneBadObject skips an object that is too large, and an object without read permission until it has one.
func TestOneBadObject(t *testing.T) {
	load.Parallel(t, load.Server)
	s := store(t)
	var denied atomic.Value
	denied.Store("/bkt/b-denied")
	gate := httptest.NewServer(&httputil.ReverseProxy{
		// Out.Host stays: it is part of the signature.
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", s.Addr },
		ModifyResponse: func(r *http.Response) error {
			if r.Request.Method == http.MethodGet && strings.HasPrefix(r.Request.URL.Path, denied.Load().(string)) &&
				strings.TrimPrefix(r.Request.URL.Path, "/bkt/") != "" && r.Request.URL.Path != "/bkt" {
				r.StatusCode = http.StatusForbidden
				r.Body = io.NopCloser(strings.NewReader(
					"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"))
				r.ContentLength = -1
				r.Header.Del("Content-Length")
			}
			return nil
		},
	})
	defer gate.Close()
	for _, key := range []string{"a", "b-denied", "c", "e"} {
		s.Must(t, "PUT", "/bkt/"+key, "", strings.Repeat(key[:1], len(key)))
	}
	r := source(t, quick(gate.Listener.Addr().String(), "object.maxBytes", "8", "listing.lookback", "1h"), nil)
	s.Must(t, "PUT", "/bkt/f-large-too", "", "too large, too")
	s.Must(t, "PUT", "/bkt/g", "", "g")
	got := map[string]bool{}
	for len(got) < 4 {
		for _, one := range r.read(t, 1) {
			key, _ := one.Key.Raw()
			got[string(key)] = true
		}
	}
	if want := map[string]bool{"a": true, "c": true, "e": true, "g": true}; !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	skipped := func() string {
		all := ""
		for _, one := range r.source.(sdk.Reporter).Progress().Skipped {
			all += one.Of + ": " + one.Error + "\n"
		}
		return all
	}
	wait.For(t, "what is left out is said", func() bool {
		all := skipped()
		return strings.Contains(all, `b-denied: `) && strings.Contains(all, `f-large-too`)
	})
	// If no object can be read, the objects are not at fault.
	denied.Store("/bkt/")
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	none := source(t, quick(gate.Listener.Addr().String()), nil)
	if _, err := none.source.Read(ctx); err == nil || !strings.Contains(err.Error(), "AccessDenied") {
		t.Errorf("got %v", err)
	}
}

// TestContract runs the conformance tests of sources and destinations.
func TestContract(t *testing.T) {
	load.Parallel(t, load.Server)
	s := store(t)
	var buckets atomic.Int64
	bucket := func(t testing.TB) map[string]string {
		name := fmt.Sprintf("bucket-%d", buckets.Add(1))
		s.Must(t, "PUT", "/"+name, "", "")
		return quick(s.Addr, "aws.bucket", name)
	}
	target := plugintest.Target{Connector: s3.Connector(), Timeout: 10 * time.Second, Parallel: true}
	target.Source = func(t testing.TB, n int) map[string]string {
		set := bucket(t)
		for i := range n {
			s.Must(t, "PUT", fmt.Sprintf("/%s/%04d", set["aws.bucket"], i), "", fmt.Sprint(i))
		}
		return set
	}
	target.Destination = func(t testing.TB) map[string]string {
		set := bucket(t)
		delete(set, "pollingPeriod")
		delete(set, "listing.delay")
		set["format"], set["sdk.batch.delay"], set["sdk.batch.size"] = "json", "0", "0"
		return set
	}
	target.Written = func(t testing.TB, set map[string]string) (all []string) {
		return payloads(t, s, set["aws.bucket"])
	}
	plugintest.Run(t, target)
}

// TestPrefixes reads several prefixes of a real store as one source: existing objects by key, then new ones by time.
func TestPrefixes(t *testing.T) {
	load.Parallel(t, load.Server)
	s := store(t)
	for _, key := range []string{"b/1", "a/2", "a-b/1", "c/1", "a/1"} {
		s.Must(t, "PUT", "/bkt/"+key, "", key)
	}
	r := source(t, quick(s.Addr, "prefixes", "b/, a/", "listing.delay", "1ms"), nil)
	all := r.read(t, 3)
	if got := sorted(all); !slices.Equal(got, []string{"snapshot:a/1=a/1", "snapshot:a/2=a/2", "snapshot:b/1=b/1"}) &&
		!strings.Contains(text(all), "create") {
		t.Errorf("got %v", got)
	}
	s.Must(t, "PUT", "/bkt/a-b/2", "", "not this one")
	s.Must(t, "PUT", "/bkt/b/2", "", "2")
	all = append(all, r.read(t, 1)...)
	s.Must(t, "PUT", "/bkt/a/3", "", "3")
	all = append(all, r.read(t, 1)...)
	want(t, all[3:], "create:b/2=2 create:a/3=3")
	want(t, source(t, quick(s.Addr, "prefixes", "a/,b/"), all[3].Position).read(t, 1), "create:a/3=3")
}

// sorted returns the texts of records in sorted order.
func sorted(records []record.Record) (all []string) {
	for i := range records {
		all = append(all, text(records[i:i+1]))
	}
	slices.Sort(all)
	return all
}
