package s3_test

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/s3"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
)

// fake is a store whose times come from the test, in whole seconds like Amazon's. The last of several versions of a key
// is the newest. Its clock moves only while a source lists, so objects that are written between two reads of a source
// have times that the source cannot have passed.
type fake struct {
	*httptest.Server
	versions bool // versioning is enabled
	perPage  int  // entries

	mu      sync.Mutex
	entries []version     // guarded by mu
	uploads []version     // guarded by mu: in progress
	refuses int           // guarded by mu: number of requests to answer with 503
	listed  int           // guarded by mu: number of listings served
	written int           // guarded by mu: objects and removals so far
	clock   time.Time     // guarded by mu: moves only with listings
	step    time.Duration // guarded by mu: how far a listing moves the clock
}

type version struct {
	XMLName      xml.Name // Contents, Version or DeleteMarker
	Key          string
	VersionID    string `xml:"VersionId,omitempty"`
	LastModified string
	Initiated    string
	ETag         string
	Size         int
	body         string
}

func newFake(t *testing.T, versions bool) *fake {
	f := &fake{versions: versions, perPage: 2, clock: time.Now(), step: 250 * time.Millisecond}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) addr() string { return strings.TrimPrefix(f.URL, "http://") }

func stamp(at time.Time) string {
	return at.UTC().Truncate(time.Second).Format("2006-01-02T15:04:05.000Z")
}

// put adds an object, or its delete marker if body is "-".
func (f *fake) put(key, body string, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.versions {
		f.entries = slices.DeleteFunc(f.entries, func(v version) bool { return v.Key == key })
	}
	f.written++
	v := version{XMLName: xml.Name{Local: "Version"}, Key: key, LastModified: stamp(at),
		ETag: fmt.Sprintf(`"%d"`, f.written), Size: len(body), body: body}
	if f.versions {
		v.VersionID = fmt.Sprintf("v%d", f.written)
	} else {
		v.XMLName.Local = "Contents"
	}
	if body == "-" {
		v.XMLName.Local = "DeleteMarker"
	}
	f.entries = append(f.entries, v)
}

// now returns the time of the store.
func (f *fake) now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clock
}

// move sets the clock of the store forward, or back, and then by step with each listing.
func (f *fake) move(d, step time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clock, f.step = f.clock.Add(d), step
}

// remove removes an object of a bucket without versions.
func (f *fake) remove(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries = slices.DeleteFunc(f.entries, func(v version) bool { return v.Key == key })
}

// begin begins an upload. finish stores its object with the time at which the upload began.
func (f *fake) begin(key string, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uploads = append(f.uploads, version{Key: key, Initiated: stamp(at)})
}

func (f *fake) finish(key, body string, at time.Time) {
	f.mu.Lock()
	f.uploads = slices.DeleteFunc(f.uploads, func(v version) bool { return v.Key == key })
	f.mu.Unlock()
	f.put(key, body, at)
}

// ServeHTTP answers the requests of sources.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Date", f.clock.UTC().Format(http.TimeFormat))
	if f.refuses > 0 {
		f.refuses--
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	q := r.URL.Query()
	key := strings.TrimPrefix(r.URL.Path, "/bkt/")
	switch {
	case r.Method == http.MethodPut: // ignores all conditions
	case key != "" && key != r.URL.Path:
		f.get(w, key, q.Get("versionId"))
	case q.Has("versioning") && f.versions:
		_, _ = fmt.Fprint(w, "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
	case q.Has("uploads"):
		f.list(w, f.uploads, "Upload", 0)
	case q.Has("versions"), q.Has("list-type"):
		f.listed++
		f.clock = f.clock.Add(f.step)
		f.page(w, q)
	default:
		_, _ = fmt.Fprint(w, "<x/>")
	}
}

func (f *fake) get(w http.ResponseWriter, key, id string) {
	for _, v := range slices.Backward(f.entries) {
		if v.Key == key && (v.VersionID == id || id == "") {
			w.Header().Set("ETag", v.ETag)
			_, _ = fmt.Fprint(w, v.body)
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
}

// page lists entries in key order, newest first within a key.
func (f *fake) page(w http.ResponseWriter, q url.Values) {
	all := slices.DeleteFunc(slices.Clone(f.entries), func(v version) bool {
		return !strings.HasPrefix(v.Key, q.Get("prefix"))
	})
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b version) int { return strings.Compare(a.Key, b.Key) })
	name := ""
	if q.Has("list-type") {
		name = "Contents"
		all = slices.CompactFunc(all, func(a, b version) bool { return a.Key == b.Key })
	}
	after := q.Get("start-after") + q.Get("key-marker")
	at := slices.IndexFunc(all, func(v version) bool {
		return v.Key > after || v.Key == after && v.VersionID == q.Get("version-id-marker") && v.VersionID != ""
	})
	if at < 0 {
		at = len(all)
	} else if q.Get("version-id-marker") != "" {
		at++
	}
	f.list(w, all[at:], name, f.perPage)
}

func (f *fake) list(w http.ResponseWriter, all []version, name string, most int) {
	_, _ = fmt.Fprint(w, "<List>")
	if most > 0 && len(all) > most {
		last := all[most-1]
		_, _ = fmt.Fprintf(w, "<IsTruncated>true</IsTruncated><NextKeyMarker>%s</NextKeyMarker>"+
			"<NextVersionIdMarker>%s</NextVersionIdMarker>", last.Key, last.VersionID)
		all = all[:most]
	}
	for _, v := range all {
		if name != "" {
			v.XMLName.Local = name
		}
		_ = xml.NewEncoder(w).Encode(v)
	}
	_, _ = fmt.Fprint(w, "</List>")
}

// TestSameSecond reads objects that are written in the same second as the objects already read, and reads none twice,
// also when reopened from any position.
func TestSameSecond(t *testing.T) {
	t.Parallel()
	f := newFake(t, false)
	now := f.now().Truncate(time.Second)
	for i, key := range []string{"d", "b", "e"} {
		f.put(key, fmt.Sprint(i), now.Add(-time.Hour))
	}
	set := quick(f.addr(), "listing.delay", "2s")
	r := source(t, set, nil)
	all := r.read(t, 3)
	want(t, all, "snapshot:b=1 snapshot:d=0 snapshot:e=2")
	f.put("z", "3", now.Add(-2*time.Second)) // the first second after the snapshot's
	all = append(all, r.read(t, 1)...)
	now = f.now().Truncate(time.Second)
	f.put("y", "4", now)
	f.put("x", "5", now)
	f.put("a", "6", now.Add(time.Second))
	f.put("c", "7", now.Add(time.Second))
	all = append(all, r.read(t, 4)...)
	want(t, all[3:], "create:z=3 create:x=5 create:y=4 create:a=6 create:c=7")
	for i := range all[:7] {
		want(t, source(t, set, all[i].Position).read(t, 7-i), text(all[i+1:]))
	}
}

// TestProgress reports how many objects of a snapshot have been read, then how many are waiting and the age of the
// first.
func TestProgress(t *testing.T) {
	t.Parallel()
	f := newFake(t, false)
	for _, key := range []string{"p/a", "p/b", "p/c", "q/a", "q/b", "r/a"} {
		f.put(key, "1", f.now().Add(-time.Hour))
	}
	r := source(t, quick(f.addr(), "prefixes", "p/,q/"), nil)
	report := r.source.(*s3.Source).Progress
	firsts := map[int64]string{2: "p/a", 3: "p/c", 5: "q/a"}
	for _, rows := range []int64{2, 3, 5} { // this store has pages of two
		want(t, r.read(t, 1), "snapshot:"+firsts[rows]+"=1")
		r.ahead = nil
		wait.For(t, "the objects are counted", func() bool {
			p := report()
			return len(p.Snapshots) == 1 && p.Snapshots[0].Total > 0
		})
		if p := report().Snapshots[0]; p.Of != "bkt/p/,q/" || p.Rows != rows || p.Total != 5 || p.StartedAt.IsZero() {
			t.Errorf("the progress is %+v, want %d rows of 5", p, rows)
		}
	}
	at := f.now()
	for _, key := range []string{"p/d", "p/e", "p/f"} {
		f.put(key, "2", at)
	}
	r.read(t, 3)
	// The objects are older than listing.delay.
	if p := report(); len(p.Snapshots) != 0 || p.Records == nil || *p.Records != 3 ||
		p.Seconds == nil || *p.Seconds < 1 {
		t.Errorf("the progress is %+v, want 3 objects behind and no snapshot", p)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _, _ = r.source.Read(ctx) }()
	wait.For(t, "nothing is behind", func() bool { p := report(); return *p.Records == 0 && *p.Seconds == 0 })
	cancel()
	<-done
}

// TestPresentSecond does not read objects of a second in which more may be written.
func TestPresentSecond(t *testing.T) {
	t.Parallel()
	f := newFake(t, false)
	f.move(0, 0)
	r := source(t, quick(f.addr()), nil)
	got := make(chan []record.Record)
	go func() { defer close(got); got <- r.read(t, 2) }()
	listings := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.listed
	}
	at := f.now()
	f.put("b", "1", at)
	f.move(999*time.Millisecond, 0)
	before := listings()
	wait.For(t, "the bucket is listed", func() bool { return listings() > before+1 })
	f.put("a", "2", at)
	f.move(time.Second, 0)
	want(t, <-got, "create:a=2 create:b=1")
}

// TestConduitPositions resumes from positions of Conduit's connector, including objects that may have been written in
// the second of the position.
func TestConduitPositions(t *testing.T) {
	t.Parallel()
	f := newFake(t, false)
	at := f.now().Add(-time.Hour).Truncate(time.Second)
	f.put("old", "1", at.Add(-time.Second))
	f.put("key_c1", "2", at)
	f.put("same", "3", at)
	f.put("new", "4", at.Add(time.Second))
	want(t, source(t, quick(f.addr()), record.Position(fmt.Sprintf("key_c1_c%d", at.Unix()))).read(t, 3),
		"create:key_c1=2 create:same=3 create:new=4")
	want(t, source(t, quick(f.addr()), record.Position(fmt.Sprintf("new_s%d", at.Unix()))).read(t, 4),
		"snapshot:key_c1=2 snapshot:new=4 snapshot:old=1 snapshot:same=3")
}

// TestVersionsResumed reads each version once, in the order of writing, also versions of the same second.
func TestVersionsResumed(t *testing.T) {
	t.Parallel()
	f := newFake(t, true)
	f.put("a", "0", f.now().Add(-time.Hour))
	r := source(t, quick(f.addr()), nil)
	all := r.read(t, 1)
	at := f.now()
	for _, body := range []string{"1", "2", "-", "3", "4"} {
		f.put("a", body, at)
	}
	f.put("b", "5", at)
	all = append(all, r.read(t, 6)...)
	want(t, all, "snapshot:a=0 update:a=1 update:a=2 delete:a update:a=3 update:a=4 create:b=5")
	for i := range all[:6] {
		want(t, source(t, quick(f.addr()), all[i].Position).read(t, 6-i), text(all[i+1:]))
	}
}

// TestUploads reads objects of multipart uploads that began before objects already read, each once, also when the
// source is reopened.
func TestUploads(t *testing.T) {
	t.Parallel()
	f := newFake(t, false)
	began := f.now().Add(-time.Hour)
	f.put("a", "1", began.Add(-time.Minute))
	f.begin("large", began)
	f.begin("aborted", began)
	r := source(t, quick(f.addr()), nil)
	all := r.read(t, 1)
	later := f.now()
	f.begin("second", later)
	f.put("b", "2", later.Add(time.Second))
	all = append(all, r.read(t, 1)...)
	f.finish("large", "3", began)
	all = append(all, r.read(t, 1)...)
	f.finish("second", "4", later)
	all = append(all, r.read(t, 1)...)
	f.put("c", "5", later.Add(2*time.Second))
	all = append(all, r.read(t, 1)...)
	want(t, all, "snapshot:a=1 create:b=2 create:large=3 create:second=4 create:c=5")
	want(t, source(t, quick(f.addr()), all[1].Position).read(t, 3), "create:large=3 create:second=4 create:c=5")
	want(t, source(t, quick(f.addr()), all[2].Position).read(t, 2), "create:second=4 create:c=5")
	want(t, source(t, quick(f.addr()), all[3].Position).read(t, 1), "create:c=5")
}

// TestReconnects resumes after transient failures.
func TestReconnects(t *testing.T) {
	t.Parallel()
	f := newFake(t, false)
	r := source(t, quick(f.addr()), nil)
	f.mu.Lock()
	f.refuses = 3
	f.mu.Unlock()
	f.put("a", "1", f.now())
	want(t, r.read(t, 1), "create:a=1")
}

// TestIgnoredConditions refuses exactly-once effect at a store that ignores conditions.
func TestIgnoredConditions(t *testing.T) {
	t.Parallel()
	f := newFake(t, false)
	d := destinationOf(t, once(f.addr()))
	if err := d.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "the store ignores If-None-Match") {
		t.Errorf("got %v", err)
	}
}
