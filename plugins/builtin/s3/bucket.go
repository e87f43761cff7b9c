package s3

import (
	"cmp"
	"context"
	"encoding/xml"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/conduit-agent/conduit/plugins/peer"
	"github.com/conduit-agent/conduit/spec/sorting"
)

// bucket is a bucket at a store.
type bucket struct {
	name, region string
	scheme, host string
	inPath       bool // the name is in the path, not in the host
	identity     *credentials.Credentials
	client       *http.Client
	clock        *storeClock
	timeout      time.Duration
}

func open(ctx context.Context, s *bucketSettings) (*bucket, error) {
	u, err := s.endpoint()
	if err != nil {
		return nil, err
	}
	config, err := s.Client()
	if err != nil {
		return nil, err
	}
	c := &storeClock{Next: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: s.Timeout, KeepAlive: keepAlive}).DialContext,
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   s.Timeout,
		ResponseHeaderTimeout: s.Timeout,
		MaxIdleConnsPerHost:   parallel,
		IdleConnTimeout:       idleTime,
		DisableCompression:    true, // an object that is compressed stays so

		MaxResponseHeaderBytes: peer.MaxHeader,
	}}
	b := &bucket{name: s.Bucket, region: s.Region, scheme: u.Scheme, host: u.Host, inPath: s.inPath(u), identity: s.credentials(ctx), clock: c, timeout: s.Timeout,
		client: &http.Client{Transport: c, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if !b.inPath {
		b.host = s.Bucket + "." + b.host
	}
	return b, nil
}

const (
	keepAlive = 30 * time.Second
	idleTime  = 90 * time.Second
)

func (b *bucket) close() { b.client.CloseIdleConnections() }

// ask sends a request without a body and decodes the answer.
func (b *bucket) ask(ctx context.Context, query url.Values, answer any, doing string) error {
	_, body, err := b.do(ctx, request{method: http.MethodGet, query: query}, doing+" %q", b.name)
	if err != nil {
		return err
	}
	err = parse(body, answer)
	if page, ok := answer.(*listPage); ok && err == nil {
		err = page.check()
	}
	if err != nil {
		return storeError{doing: fmt.Sprintf(doing+" %q", b.name), text: "the answer cannot be read: " + err.Error(), passes: true}
	}
	return nil
}

// exists returns nil when the bucket is there.
func (b *bucket) exists(ctx context.Context) error {
	_, _, err := b.do(ctx, request{method: http.MethodHead}, "cannot reach bucket %q", b.name)
	if c := code(err); c == noSuchKey || c == noSuchBucket {
		return fmt.Errorf("bucket %q does not exist", b.name)
	}
	return err
}

// versioned reports whether the bucket keeps versions, or kept them once.
func (b *bucket) versioned(ctx context.Context) (bool, error) {
	var answer struct{ Status string }
	err := b.ask(ctx, url.Values{"versioning": {""}}, &answer, "cannot find out whether versions are kept by bucket")
	if c := code(err); c == notImplemented || c == methodNotAllowed {
		return false, nil
	}
	return answer.Status != "", err
}

// get returns the content of an object, and the header of the answer.
func (b *bucket) get(ctx context.Context, key, version string, size int64, header http.Header) ([]byte, http.Header, error) {
	query := url.Values{}
	if version != "" {
		query.Set("versionId", version)
	}
	answer, content, err := b.do(ctx, request{method: http.MethodGet, key: key, query: query, header: header, size: size}, "cannot read object %q", key)
	if n, known := answer.Get("Content-Length"), err == nil; known && n != strconv.Itoa(len(content)) {
		err = storeError{doing: fmt.Sprintf("cannot read object %q", key), text: fmt.Sprintf("%d bytes of %s came", len(content), n), passes: true}
	}
	return content, answer, err
}

// head returns what a store says of an object.
func (b *bucket) head(ctx context.Context, key string) (http.Header, error) {
	header, _, err := b.do(ctx, request{method: http.MethodHead, key: key}, "cannot ask for object %q", key)
	return header, err
}

// put writes an object.
func (b *bucket) put(ctx context.Context, key string, content []byte, header http.Header) error {
	_, _, err := b.do(ctx, request{method: http.MethodPut, key: key, header: header, body: content}, "cannot write object %q", key)
	return err
}

// remove removes an object, if there is one.
func (b *bucket) remove(ctx context.Context, key string) error {
	_, _, err := b.do(ctx, request{method: http.MethodDelete, key: key}, "cannot remove object %q", key)
	return err
}

// listEntry is an object, a version or the removal of one in a listing.
type listEntry struct {
	XMLName      xml.Name
	Key          string
	VersionID    string `xml:"VersionId"`
	IsLatest     bool
	LastModified time.Time
	ETag         string
	Size         int64
}

// listPage is a part of a listing.
type listPage struct {
	IsTruncated         bool
	EncodingType        string
	NextKeyMarker       string
	NextVersionIDMarker string      `xml:"NextVersionIdMarker"`
	Contents            []listEntry // of objects
	Versions            []listEntry `xml:",any"` // and removals, in order, with what else there is
}

// largestObject is more than any store takes, which is 50 TiB. Sizes below it can be added.
const largestObject = 1 << 50

// check returns an error for sizes that no object has: they are allocated before the content comes.
func (p *listPage) check() error {
	for _, e := range slices.Concat(p.Contents, p.Versions) {
		if e.Size < 0 || e.Size > largestObject {
			return fmt.Errorf("object %.256q has %d bytes", e.Key, e.Size)
		}
	}
	return nil
}

// pageSize is how many entries stores have in an answer at most.
const pageSize = 1000

// page returns the next objects behind a key, in the order of keys; none when there are no more.
func (b *bucket) page(ctx context.Context, prefix, after string) ([]object, error) {
	query := url.Values{"list-type": {"2"}, "prefix": {prefix}, "encoding-type": {"url"}, "max-keys": {strconv.Itoa(pageSize)}}
	if after != "" {
		query.Set("start-after", after)
	}
	var p listPage
	if err := b.ask(ctx, query, &p, "cannot list bucket"); err != nil {
		return nil, err
	}
	all := make([]object, len(p.Contents))
	for i := range p.Contents {
		all[i] = objectOf(&p.Contents[i], p.EncodingType)
	}
	return all, nil
}

// marker is where the next page of versions begins.
type marker struct{ key, version string }

// versionPage returns the next versions and removals, in the order of keys, those of one key newest first.
func (b *bucket) versionPage(ctx context.Context, prefix string, from marker) (all []object, next marker, more bool, err error) {
	query := url.Values{"versions": {""}, "prefix": {prefix}, "encoding-type": {"url"}, "max-keys": {strconv.Itoa(pageSize)}}
	if from.key != "" {
		query.Set("key-marker", from.key)
	}
	if from.version != "" {
		query.Set("version-id-marker", from.version)
	}
	var p listPage
	if err := b.ask(ctx, query, &p, "cannot list the versions in bucket"); err != nil {
		return nil, next, false, err
	}
	for i := range p.Versions {
		if name := p.Versions[i].XMLName.Local; name == "Version" || name == deleteMarker {
			all = append(all, objectOf(&p.Versions[i], p.EncodingType))
		}
	}
	// Some stores have the removals behind the versions of all keys.
	sorting.StableBy(all, func(a, b object) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), latestFirst(a.latest, b.latest), b.Modified.Compare(a.Modified))
	})
	next = marker{decoded(p.NextKeyMarker, p.EncodingType), p.NextVersionIDMarker}
	return all, next, p.IsTruncated && next != from, nil
}

func latestFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

const deleteMarker = "DeleteMarker"

// decoded returns a key as it is.
func decoded(key, encoding string) string {
	if plain, err := url.QueryUnescape(key); err == nil && encoding == "url" {
		return plain
	}
	return key
}

// etagOf returns an ETag without quotation marks.
func etagOf(s string) string { return strings.Trim(s, `"`) }
