package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/texts"
)

const (
	parallel   = 16      // objects read concurrently
	batchBytes = 8 << 20 // of objects read concurrently, in addition to the first
)

// fetch reads the next objects of the queue. It omits objects that were removed or replaced since the listing: the next
// listing has their later state, and the objects that still exist.
func (s *Source) fetch(ctx context.Context) ([]record.Record, error) {
	n, total, most := 0, int64(0), int64(sdk.BatchBytes(ctx, batchBytes))
	for n < min(len(s.queue), parallel) && (n == 0 || total+s.sizeOf(n) <= most) {
		total += s.sizeOf(n)
		n++
	}
	if err := sdk.Reserve(ctx, int(min(total, max(most, s.settings.Largest)))); err != nil { // read refuses more
		return nil, err
	}
	results := make([]fetched, n)
	concurrently(n, func(i int) { results[i] = s.read(ctx, &s.queue[i]) })
	var records []record.Record
	for i := range results[:n] {
		if results[i].found {
			s.mayRead = true
		}
		if err := results[i].err; err != nil && !s.leavesOut(results, err) {
			return records, err
		}
		o := s.queue[0]
		s.queue = s.queue[1:]
		if err := results[i].err; err != nil {
			s.leaveOut(&o, err)
		} else if s.skips.Remove(o.Key) {
			s.log.Info("an object that was skipped has now been read or removed", "key", o.Key)
		}
		r, err := s.place(&o, results[i].record, results[i].found)
		if err != nil {
			return records, err
		}
		if results[i].found {
			records = append(records, r)
		}
	}
	return records, nil
}

// sizeOf returns the number of bytes to read for an object in the queue: 0 for an object that is too large.
func (s *Source) sizeOf(i int) int64 {
	if size := s.queue[i].size; size <= s.settings.Largest {
		return size
	}
	return 0
}

// leavesOut reports whether an error concerns only one object, so that reading continues without it. If no object can
// be read, and none has been read since Open, the source itself lacks permissions.
func (s *Source) leavesOut(results []fetched, err error) bool {
	if errors.As(err, new(tooLargeError)) {
		return true
	}
	if c := code(err); c != accessDenied && c != invalidObjectState {
		return false
	}
	return s.mayRead || slices.ContainsFunc(results, func(f fetched) bool { return f.found })
}

// leaveOut reports an object that the source leaves out.
func (s *Source) leaveOut(o *object, err error) {
	if s.skips.Add(o.Key, err) {
		s.log.Warn("skipping an object; the source retries it within listing.lookback", "key", o.Key, "err", err)
	}
}

// tooLargeError reports an object that is larger than object.maxBytes.
type tooLargeError struct {
	key  string
	size int64
}

func (e tooLargeError) Error() string {
	return fmt.Sprintf("object %q has %d bytes, more than object.maxBytes: increase it as far as the memory of this "+
		"machine allows, or choose another prefix", e.key, e.size)
}

// fetched is the result of reading an object.
type fetched struct {
	record record.Record
	found  bool
	err    error
}

func (s *Source) read(ctx context.Context, o *object) fetched {
	r := record.Record{Operation: o.operation, Key: record.Raw([]byte(o.Key))}
	if o.operation == record.OperationDelete {
		s.describe(&r, o, nil)
		return fetched{r, true, nil}
	}
	if o.size > s.settings.Largest {
		return fetched{err: tooLargeError{o.Key, o.size}}
	}
	content, header, err := s.get(ctx, o)
	switch code(err) {
	case noSuchKey, noSuchVersion, preconditionFailed, methodNotAllowed: // methodNotAllowed: a delete marker
		return fetched{}
	}
	if tag := header.Get("ETag"); tag != "" && etagOf(tag) != o.etag { // the store ignores the condition
		return fetched{}
	}
	if err != nil {
		return fetched{err: err}
	}
	r.After = record.Raw(content)
	s.describe(&r, o, header)
	return fetched{r, true, nil}
}

// get requests the listed version.
func (s *Source) get(ctx context.Context, o *object) ([]byte, http.Header, error) {
	if s.versions && o.operation != record.OperationSnapshot {
		return s.bucket.get(ctx, o.Key, o.versionID, o.size, nil)
	}
	return s.bucket.get(ctx, o.Key, "", o.size, http.Header{"If-Match": {`"` + o.etag + `"`}})
}

const userPrefix = "X-Amz-Meta-"

// describe adds the metadata. User metadata of the object keeps its names, except for reserved names.
func (s *Source) describe(r *record.Record, o *object, header http.Header) {
	for name := range header {
		user, ok := strings.CutPrefix(name, userPrefix)
		if user = strings.ToLower(user); ok && !reserved().MatchString(user) {
			r.Metadata.Set(user, header.Get(name))
		}
	}
	if header != nil {
		r.Metadata.Set("s3.header.contentType", cmp.Or(header.Get("Content-Type"), "application/octet-stream"))
	}
	r.Metadata.Set("s3.bucket", s.settings.Bucket)
	r.Metadata.Set("s3.lastModified", o.Modified.Format(time.RFC3339Nano))
	if o.etag != "" {
		r.Metadata.Set("s3.etag", o.etag)
	}
	if o.versionID != "" {
		r.Metadata.Set("s3.version", o.versionID)
	}
}

// reserved matches the names that user metadata cannot have.
var reserved = texts.Regexp(`^(opencdc|conduit|s3)\.`)

// miss records that an object could not be read as listed: it was removed or replaced, unless the next listing has it
// again.
func (s *Source) miss(o *object) {
	if o.operation == record.OperationSnapshot {
		s.missing++
		return
	}
	h := o.hash()
	if s.missed[h]++; s.missed[h] == 2 {
		s.log.Warn("an object differs from its entry in the listing; the source retries it within listing.lookback",
			"key", o.Key, "etag", o.etag)
	}
}

// stillMissed keeps only the missed objects that are listed again.
func (s *Source) stillMissed() {
	again := map[uint64]int{}
	for i := range s.queue {
		if len(s.missed) == 0 {
			break
		}
		if h := s.queue[i].hash(); s.missed[h] > 0 {
			again[h] = s.missed[h]
		}
	}
	s.missed = again
}

// place gives a record its position, and records that the object was read or not found.
func (s *Source) place(o *object, r record.Record, found bool) (record.Record, error) {
	s.uploads = without(s.uploads, &o.place)
	if found {
		s.window.add(o)
	} else {
		s.miss(o)
	}
	p := position{place: o.place, Resume: 1, Bucket: s.settings.Bucket, Uploads: s.uploads}
	if len(s.settings.Prefixes) > 0 {
		p.Prefixes = s.prefixes
	}
	switch {
	case o.operation == record.OperationSnapshot:
		if p.Snapshot = s.began; s.added != nil {
			p.Added, p.Reached = s.added, &s.reached
		}
		s.count()
	case o.late || o.compare(s.reached) < 0:
		p.Reached = &s.reached
	default:
		s.reached = o.place
	}
	if p.Snapshot == nil {
		s.window.advance(s.reached.Modified, o.Modified)
	}
	if !s.window.isOlder {
		p.Since, p.Known = &s.window.since, &s.window.set
	}
	var err error
	r.Position, err = p.encode()
	return r, err
}
