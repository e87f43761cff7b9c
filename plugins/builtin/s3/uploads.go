package s3

import (
	"context"
	"net/url"
	"slices"
	"time"
)

// upload is a multipart upload in progress. Amazon gives the object of a multipart upload the time at which the upload
// began: when it appears, the source may have read later objects already.
type upload struct {
	Key   string    `json:"key"`
	Began time.Time `json:"began"`
}

// tolerance is the maximum difference between the times of the object and the upload.
const tolerance = time.Second

// made reports whether the upload made the object at p.
func (u upload) made(p *place) bool {
	return u.Key == p.Key && p.Modified.Sub(u.Began).Abs() <= tolerance
}

// maxUploads is the number of uploads kept in a position: the newest ones.
const maxUploads = 100

// uploads returns the uploads in progress below the prefixes, oldest first, and the number of older uploads that it
// omits.
func (b *bucket) uploads(ctx context.Context, prefixes []string) (all []upload, older int, err error) {
	for _, prefix := range prefixes {
		for from, more := (marker{}), true; more; {
			var page []upload
			if page, from, more, err = b.uploadPage(ctx, prefix, from); err != nil {
				return nil, 0, err
			}
			all = append(all, page...)
			slices.SortStableFunc(all, func(a, b upload) int { return a.Began.Compare(b.Began) })
			if over := len(all) - maxUploads; over > 0 {
				all, older = all[over:], older+over
			}
		}
	}
	return all, older, nil
}

// uploadPage returns the next uploads, in key order.
func (b *bucket) uploadPage(
	ctx context.Context, prefix string, from marker,
) (all []upload, next marker, more bool, err error) {
	query := url.Values{"uploads": {""}, "prefix": {prefix}, "encoding-type": {"url"}}
	if from.key != "" {
		query.Set("key-marker", from.key)
		query.Set("upload-id-marker", from.version)
	}
	var page uploadPage
	if err := b.ask(ctx, query, &page, "cannot list the uploads to bucket"); err != nil {
		return nil, next, false, err
	}
	for _, u := range page.Upload {
		all = append(all, upload{decoded(u.Key, page.EncodingType), u.Initiated.UTC()})
	}
	next = marker{decoded(page.NextKeyMarker, page.EncodingType), page.NextUploadIDMarker}
	return all, next, page.IsTruncated && next != from, nil
}

// uploadPage is a page of the list of uploads.
type uploadPage struct {
	IsTruncated        bool
	EncodingType       string
	NextKeyMarker      string
	NextUploadIDMarker string `xml:"NextUploadIdMarker"`
	Upload             []struct {
		Key       string
		Initiated time.Time
	}
}

// with returns the union of a and b.
func with(a, b []upload) []upload {
	all := slices.Clone(a)
	for _, u := range b {
		if !slices.Contains(all, u) {
			all = append(all, u)
		}
	}
	return all
}

// without returns the uploads except those that made the object at p.
func without(all []upload, p *place) []upload {
	if !slices.ContainsFunc(all, func(u upload) bool { return u.made(p) }) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(u upload) bool { return u.made(p) })
}

// open returns the uploads that are in progress now, and the uploads whose objects have not been read.
func (l *listing) open(now []upload) []upload {
	made := slices.DeleteFunc(slices.Clone(l.uploads), func(u upload) bool {
		return !slices.ContainsFunc(l.uploaded, func(o object) bool { return u.made(&o.place) })
	})
	return with(now, made)
}
