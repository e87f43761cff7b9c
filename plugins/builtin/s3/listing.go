package s3

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// object is a version of an object, or its removal.
type object struct {
	place
	operation record.Operation
	etag      string
	versionID string // "" without versioning
	latest    bool   // the current version of the key
	size      int64
	late      bool // of a multipart upload that began before objects already read
	index     int  // in the listing: versions of a key in the order of writing
}

// place is the place of an object in the order of reading: by time, then by key.
type place struct {
	Modified time.Time `json:"modified"`
	Key      string    `json:"key"`
	Version  string    `json:"version,omitempty"` // version id, or ETag without versioning
}

func (p place) compare(o place) int {
	return cmp.Or(p.Modified.Compare(o.Modified), cmp.Compare(p.Key, o.Key))
}

// most is the number of objects that are kept of a listing: the first ones.
const most = 10_000

// listing collects the unread objects that were modified before a time.
type listing struct {
	window  *window
	until   time.Time
	uploads []upload // that were in progress; their objects may be before the window

	found    furthest // the first ones, at most most
	uploaded []object // by uploads
	more     int      // number of objects not kept
	count    int
	group    []object // versions of a key, newest first
	groupKey string
	updates  int // versions in the group that have an older version
}

// list lists all objects below the prefix. Entries come in key order, newest first within a key.
func (b *bucket) list(ctx context.Context, prefix string, versions bool, add func(object)) error {
	if versions {
		return b.listVersions(ctx, prefix, add)
	}
	for after := ""; ; {
		page, err := b.page(ctx, prefix, after)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, o := range page {
			add(o)
		}
		after = page[len(page)-1].Key
	}
}

func (b *bucket) listVersions(ctx context.Context, prefix string, add func(object)) error {
	for from, more := (marker{}), true; more; {
		var page []object
		var err error
		if page, from, more, err = b.versionPage(ctx, prefix, from); err != nil {
			return err
		}
		for _, o := range page {
			add(o)
		}
	}
	return nil
}

// add adds an entry.
func (l *listing) add(o object) {
	if o.Key != l.groupKey {
		l.endGroup()
		l.groupKey = o.Key
	}
	if l.isRead(&o) {
		if o.operation != record.OperationDelete {
			l.updates = len(l.group)
		}
		return
	}
	l.group = append(l.group, o)
}

// isRead reports whether an object has been read, or is older than the window.
func (l *listing) isRead(o *object) bool {
	if o.Modified.Before(l.window.since) {
		return !l.isUpload(o)
	}
	return l.window.has(o)
}

// objectOf converts an entry of a listing.
func objectOf(e *listEntry, encoding string) object {
	etag := etagOf(e.ETag)
	o := object{place: place{e.LastModified.UTC(), decoded(e.Key, encoding), etag}, operation: record.OperationCreate,
		etag: etag, versionID: e.VersionID, latest: e.IsLatest, size: e.Size}
	if o.versionID != "" && o.versionID != noVersion { // a version without an id overwrites the previous one
		o.Version = o.versionID
	}
	if e.XMLName.Local == deleteMarker {
		o.operation = record.OperationDelete
	}
	return o
}

// noVersion is the id of a version that was written without versioning.
const noVersion = "null"

// isUpload reports whether an upload in progress made o, and marks o as late.
func (l *listing) isUpload(o *object) bool {
	o.late = slices.ContainsFunc(l.uploads, func(u upload) bool { return u.made(&o.place) })
	return o.late
}

// endGroup adds the objects of the collected key.
func (l *listing) endGroup() {
	isUpdated := false
	for i, o := range slices.Backward(l.group) {
		isUpdated = isUpdated || i < l.updates
		if o.operation == record.OperationCreate {
			if isUpdated {
				o.operation = record.OperationUpdate
			}
			isUpdated = true
		}
		l.keep(o)
	}
	l.group, l.updates = l.group[:0], 0
}

func (l *listing) keep(o object) {
	l.count++
	o.index = l.count
	switch {
	case o.late:
		l.uploaded = append(l.uploaded, o)
	case !o.Modified.Before(l.until): // more may appear with this time
	default:
		heap.Push(&l.found, o)
		if len(l.found) > most {
			heap.Pop(&l.found)
			l.more++
		}
	}
}

// objects returns the objects to read, in order.
func (l *listing) objects() []object {
	l.endGroup()
	found := []object(l.found)
	slices.SortStableFunc(found, func(a, b object) int {
		return cmp.Or(a.compare(b.place), cmp.Compare(a.index, b.index))
	})
	return append(l.uploaded, found...)
}

// furthest is a heap whose root is the last object in the order of reading.
type furthest []object

// Len implements heap.Interface.
func (h furthest) Len() int { return len(h) }

// Less implements heap.Interface.
func (h furthest) Less(i, j int) bool {
	return cmp.Or(h[i].compare(h[j].place), cmp.Compare(h[i].index, h[j].index)) > 0
}

// Swap implements heap.Interface.
func (h furthest) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *furthest) Push(x any) { *h = append(*h, x.(object)) }

// Pop implements heap.Interface.
func (h *furthest) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
