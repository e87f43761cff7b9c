package s3

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/csv"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type sourceSettings struct {
	bucketSettings

	// Key prefix of the objects to read.
	Prefix string `json:"prefix" literal:"true"`
	// Several prefixes instead of one; none may be a prefix of another. Instances of the pipeline divide them.
	Prefixes []string `json:"prefixes" literal:"true"`
	// Interval between listings of the bucket.
	Period time.Duration `json:"pollingPeriod" default:"1s" validate:"gt=0"`
	// Minimum age of an object. It must exceed the clock differences of the store and the time that objects of one
	// second take to appear.
	Delay time.Duration `json:"listing.delay" default:"2s" validate:"gt=0"`
	// Maximum delay between the timestamp and the appearance of an object, or step back of the store's clock, for which
	// objects are still read.
	Lookback time.Duration `json:"listing.lookback" default:"5m" validate:"gt=0"`
	// Conversion of an object to records. raw: one record. lines: one for each line that is not empty. csv: one for each
	// line behind the header, as an object; quotes may span lines, and a line that does not fit stays text, with csv.error
	// in its metadata.
	Format string `json:"format" default:"raw" validate:"inclusion=raw|lines|csv"`
	// Maximum size of an object in bytes, because it is held in memory. Larger objects are skipped and reported.
	Largest int64 `json:"object.maxBytes" default:"268435456" validate:"gt=0"`

	csv.Settings
}

// Source reads objects: first the existing ones, by key, then changes by time. Its fields are owned by Read, except
// report.
type Source struct {
	sdk.SourceBase

	settings sourceSettings
	bucket   *bucket // nil before Open
	log      *slog.Logger
	versions bool // the bucket has versioning

	prefixes []string   // of the settings, in key order
	added    []string   // new prefixes, which the snapshot has while polling waits; nil: it has all
	snapshot *time.Time // the snapshot has older objects; nil when all are listed
	began    *time.Time // beginning of the snapshot
	rest     []string   // prefixes of the snapshot that are not fully listed
	after    string     // key of the snapshot's last object, below rest[0]
	reached  place      // by polling
	window   *window    // of objects before reached
	uploads  []upload   // in progress
	queue    []object   // found and not read, in order
	csv      *csv.Reader
	rows     *rows          // of the object that is being read by lines; nil: none is
	resumed  *position      // of the first object of the queue, whose lines after resumed.Row are read; nil: none is
	due      time.Time      // time of the next listing
	missed   map[uint64]int // objects of the last listing that could not be read: number of failures
	mayRead  bool           // an object has been read since Open
	missing  int            // objects of the snapshot that could not be read
	denied   bool           // permission to list uploads is missing
	counter  counter        // counts the snapshot
	gauge
}

// gauge holds the progress of the source.
type gauge struct {
	mu     sync.Mutex
	report progress.Report // guarded by mu
	skips  progress.Skips  // objects left out; has its lock
}

// Parameters describes the settings.
func (s *Source) Parameters() sdk.Parameters {
	return sdk.Described(sourceSettings{}, descriptions+csv.Descriptions+common.Descriptions)
}

// Configure checks and keeps the settings.
func (s *Source) Configure(ctx context.Context, values map[string]string) error {
	return common.ParseSettings(values, &s.settings, func() (err error) {
		if s.csv, err = csv.NewReader(&s.settings.Settings); err != nil {
			return err
		}
		return s.settings.check(ctx)
	})
}

// Open returns when the bucket has been found.
func (s *Source) Open(ctx context.Context, pos record.Position) (err error) {
	s.log = sdk.Logger(ctx)
	var p position
	if len(pos) > 0 {
		if p, err = parsePosition(pos, s.settings.Bucket); err != nil {
			return err
		}
	}
	if s.bucket, err = open(ctx, &s.settings.bucketSettings); err != nil {
		return err
	}
	if err := s.bucket.exists(ctx); err != nil {
		return err
	}
	if s.versions, err = s.bucket.versioned(ctx); err != nil {
		return err
	}
	s.prefixes = s.settings.all()
	if p.Unfinished != nil && s.settings.Format == "raw" {
		return sdk.Permanent(fmt.Errorf("cannot resume: the position is that of a line of object %q, but format is raw "+
			"now: set it back; %s", p.Key, sdk.StartOver))
	}
	isNew := len(s.unread(&p)) > 0
	switch {
	case p.Snapshot == nil && p.Reached == nil && p.Key == "":
		return s.begin(ctx)
	case p.Prefixes == nil && len(s.settings.Prefixes) > 0:
		s.log.Warn("the position has no prefixes: reading all objects again")
		return s.begin(ctx)
	case isNew && p.Snapshot != nil && p.Added == nil:
		s.log.Info("new prefixes were added: restarting the snapshot")
		return s.begin(ctx)
	case isNew:
		s.log.Info("new prefixes were added: reading their objects")
	}
	s.restore(&p)
	return nil
}

// restore resumes from a position.
func (s *Source) restore(p *position) {
	s.uploads, s.snapshot, s.began = p.Uploads, p.Snapshot, p.Snapshot
	switch {
	case p.Reached != nil:
		s.reached = *p.Reached
	case p.Snapshot != nil:
		s.reached = place{Modified: *p.Snapshot}
	default:
		s.reached = p.place
	}
	if p.Snapshot != nil {
		s.after = p.Key
	}
	s.window = newWindow(s.reached.Modified, s.settings.Lookback)
	s.window.restore(p)
	if len(p.Former) > 0 {
		s.log.Warn("the position was saved by an earlier version: objects within listing.lookback " +
			"before it are read again")
	}
	if u := p.Unfinished; u != nil {
		s.queue, s.resumed = []object{{place: p.place, operation: record.Operation(u.Operation), etag: u.ETag,
			versionID: u.VersionID, size: u.Size}}, p
	}
	s.extend(p)
	s.rest = behind(s.after, s.listed())
	s.follow()
}

// begin begins a snapshot.
func (s *Source) begin(ctx context.Context) error {
	began := s.settled()
	var err error
	if s.uploads, err = s.underWay(ctx); err != nil {
		return err
	}
	s.snapshot, s.began, s.reached, s.rest = &began, &began, place{Modified: began}, s.prefixes
	s.window = newWindow(began, s.settings.Lookback)
	s.follow()
	return nil
}

// settled returns the time before which no more objects appear.
func (s *Source) settled() time.Time {
	return s.bucket.clock.Now().Add(-s.settings.Delay).Truncate(time.Second).UTC()
}

// follow starts the progress report.
func (s *Source) follow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Snapshots = nil
	if s.snapshot != nil {
		s.report.Snapshots = []progress.Snapshot{{Of: s.settings.Bucket + "/" + strings.Join(s.listed(), ","),
			StartedAt: time.Now()}}
	}
}

// count counts an object of the snapshot.
func (g *gauge) count() {
	g.change(func(s *progress.Snapshot) { s.Rows++ })
}

// change changes the progress of the snapshot, if it still runs.
func (g *gauge) change(by func(*progress.Snapshot)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.report.Snapshots) > 0 {
		all := slices.Clone(g.report.Snapshots) // a caller may still read the old slice
		by(&all[0])
		g.report.Snapshots = all
	}
}

// underWay returns the uploads in progress.
func (s *Source) underWay(ctx context.Context) ([]upload, error) {
	now, older, err := s.bucket.uploads(ctx, s.prefixes)
	switch {
	case err != nil && isPassing(err):
		return nil, err
	case err != nil && !s.denied:
		s.denied = true
		s.log.Warn("cannot list multipart uploads: objects can be missed if the store sets their time to the start "+
			"of the upload; allow the listing of multipart uploads", "err", err)
	case older > 0:
		s.log.Warn("the source does not wait for old multipart uploads: make the bucket abort incomplete uploads "+
			"with a lifecycle rule", "uploads",
			older)
	}
	return now, nil
}

// Read returns objects as records.
func (s *Source) Read(ctx context.Context) ([]record.Record, error) {
	var again common.Backoff
	for {
		records, err := s.try(ctx)
		switch {
		case ctx.Err() != nil && len(records) == 0:
			return nil, ctx.Err()
		case len(records) > 0:
			return records, nil
		case err == nil:
			again = common.Backoff{}
			continue
		case !isPassing(err):
			return nil, err
		}
		s.note(err.Error())
		s.log.Warn("cannot read, retrying", "err", err)
		if err := again.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// try lists, or reads the next objects of the last listing.
func (s *Source) try(ctx context.Context) ([]record.Record, error) {
	switch {
	case s.rows != nil || len(s.queue) > 0 && s.settings.Format != "raw":
		return s.fetchRows(ctx)
	case len(s.queue) > 0:
		return s.fetch(ctx)
	}
	if s.snapshot != nil {
		return nil, s.page(ctx)
	}
	t := time.NewTimer(time.Until(s.due))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return nil, s.poll(ctx)
}

// page lists the next objects of the snapshot. After the last one, polling begins.
func (s *Source) page(ctx context.Context) error {
	if len(s.rest) == 0 {
		s.listedAll()
		return nil
	}
	page, err := s.bucket.page(ctx, s.rest[0], within(s.after, s.rest[0]))
	if err != nil {
		return err
	}
	s.note("")
	for _, o := range page {
		s.after = o.Key
		if o.Modified.Before(*s.snapshot) {
			o.operation = record.OperationSnapshot
			s.queue = append(s.queue, o)
		}
	}
	if len(page) == 0 {
		s.rest = s.rest[1:]
	}
	if s.counter.cancel == nil {
		s.start(int64(len(s.queue)), *s.snapshot)
	}
	return nil
}

// listedAll ends the snapshot.
func (s *Source) listedAll() {
	s.counter.stop()
	s.snapshot = nil
	s.follow()
	if s.missing > 0 {
		s.log.Warn("objects of the snapshot were removed or replaced before they could be read",
			"objects", s.missing)
	}
}

// poll lists the changed objects. It lists uploads first, so that an upload that ends in between is recognized by its
// object.
func (s *Source) poll(ctx context.Context) error {
	if s.window.isRestored {
		return s.resume(ctx)
	}
	began := time.Now()
	until := s.settled()
	now, err := s.underWay(ctx)
	if err != nil {
		return err
	}
	l := &listing{window: s.window, until: until, uploads: with(s.uploads, now)}
	s.window.list()
	if err := s.list(ctx, s.prefixes, l.add); err != nil {
		return err
	}
	s.window.listed()
	s.queue, s.uploads = l.objects(), l.open(now)
	s.stillMissed()
	s.due = began.Add(s.settings.Period)
	if l.more > 0 {
		s.due = time.Time{}
	}
	s.measure(l)
	return nil
}

// resume finds out which objects of the window were read before the source was opened.
func (s *Source) resume(ctx context.Context) error {
	listed, isBehind := map[uint64]int64{}, false
	err := s.list(ctx, s.known(), func(o object) {
		order := o.compare(s.reached)
		if order == 0 && s.window.isOlder { // versions with the same time, newest first: all up to the position's
			isBehind = isBehind || o.Version == s.reached.Version
			if !isBehind {
				return
			}
		}
		if order <= 0 && !o.Modified.Before(s.window.since) {
			listed[o.hash()] = o.Modified.UnixNano()
		}
	})
	if err != nil {
		return err
	}
	s.added = nil
	if again := s.window.resolve(listed); again > 0 {
		s.log.Warn("cannot determine which objects were read before the restart: reading these objects of "+
			"listing.lookback again",
			"objects", again)
	}
	return nil
}

// measure reports the lag of the source.
func (s *Source) measure(l *listing) {
	records, seconds := int64(len(s.queue)+l.more), 0.0
	if records > 0 {
		seconds = max(0, s.bucket.clock.Now().Sub(s.queue[0].Modified).Seconds())
	}
	warning := s.window.warning(s.bucket.clock.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	if warning != "" && warning != s.report.Warning {
		s.log.Warn(warning)
	}
	s.report.Records, s.report.Seconds, s.report.At, s.report.Warning = &records, &seconds, time.Now(), warning
}

// note records that the store answered, or a warning.
func (g *gauge) note(warning string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.report.Warning = warning; warning == "" {
		g.report.At = time.Now()
	}
}

// Progress returns how many objects are waiting, and how old the first is.
func (g *gauge) Progress() progress.Report {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.report
	r.Skipped = g.skips.List()
	return r
}

// Teardown closes connections.
func (s *Source) Teardown(context.Context) error {
	s.counter.stop()
	if s.bucket != nil {
		s.bucket.close()
	}
	return nil
}
