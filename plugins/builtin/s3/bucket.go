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
)

// bucket is a bucket in a store.
type bucket struct {
	name, region string
	scheme, host string
	inPath       bool // the path has the bucket name, not the host
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
		DisableCompression:    true, // compressed objects stay compressed

		MaxResponseHeaderBytes: peer.MaxHeader,
	}}
	b := &bucket{name: s.Bucket, region: s.Region, scheme: u.Scheme, host: u.Host, inPath: s.inPath(u),
		identity: s.credentials(ctx), clock: c, timeout: s.Timeout,
		client: &http.Client{Transport: c, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}}
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

// ask sends a request without a body and decodes the response.
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
		return storeError{doing: fmt.Sprintf(doing+" %q", b.name), text: "cannot parse the response: " + err.Error(),
			passes: true}
	}
	return nil
}

// exists returns nil if the bucket exists.
func (b *bucket) exists(ctx context.Context) error {
	_, _, err := b.do(ctx, request{method: http.MethodHead}, "cannot reach bucket %q", b.name)
	if c := code(err); c == noSuchKey || c == noSuchBucket {
		return fmt.Errorf("bucket %q does not exist", b.name)
	}
	return err
}

// versioned reports whether the bucket has, or once had, versioning enabled.
func (b *bucket) versioned(ctx context.Context) (bool, error) {
	var answer struct{ Status string }
	err := b.ask(ctx, url.Values{"versioning": {""}}, &answer, "cannot query the versioning of bucket")
	if c := code(err); c == notImplemented || c == methodNotAllowed {
		return false, nil
	}
	return answer.Status != "", err
}

// get returns the content of an object and the header of the response.
func (b *bucket) get(
	ctx context.Context, key, version string, size int64, header http.Header,
) ([]byte, http.Header, error) {
	query := url.Values{}
	if version != "" {
		query.Set("versionId", version)
	}
	answer, content, err := b.do(ctx, request{method: http.MethodGet, key: key, query: query, header: header,
		size: size}, "cannot read object %q", key)
	if n, known := answer.Get("Content-Length"), err == nil; known && n != strconv.Itoa(len(content)) {
		err = storeError{doing: fmt.Sprintf("cannot read object %q", key),
			text: fmt.Sprintf("the response ended after %d of %s bytes", len(content), n), passes: true}
	}
	return content, answer, err
}

// head returns the header of an object.
func (b *bucket) head(ctx context.Context, key string) (http.Header, error) {
	header, _, err := b.do(ctx, request{method: http.MethodHead, key: key}, "cannot query object %q", key)
	return header, err
}

// put writes an object.
func (b *bucket) put(ctx context.Context, key string, content []byte, header http.Header) error {
	_, _, err := b.do(ctx, request{method: http.MethodPut, key: key, header: header, body: content},
		"cannot write object %q", key)
	return err
}

// remove removes an object, if it exists.
func (b *bucket) remove(ctx context.Context, key string) error {
	_, _, err := b.do(ctx, request{method: http.MethodDelete, key: key}, "cannot remove object %q", key)
	return err
}

// listEntry is an object, a version or a delete marker in a listing.
type listEntry struct {
	XMLName      xml.Name
	Key          string
	VersionID    string `xml:"VersionId"`
	IsLatest     bool
	LastModified time.Time
	ETag         string
	Size         int64
}

// listPage is a page of a listing.
type listPage struct {
	IsTruncated         bool
	EncodingType        string
	NextKeyMarker       string
	NextVersionIDMarker string      `xml:"NextVersionIdMarker"`
	Contents            []listEntry // objects
	Versions            []listEntry `xml:",any"` // and delete markers, in order, with all other elements
}

// largestObject is above the limit of any store, which is 50 TiB. Sums of sizes below it do not overflow.
const largestObject = 1 << 50

// check returns an error for impossible sizes, because buffers are allocated before the content arrives.
func (p *listPage) check() error {
	for _, e := range slices.Concat(p.Contents, p.Versions) {
		if e.Size < 0 || e.Size > largestObject {
			return fmt.Errorf("object %.256q has %d bytes", e.Key, e.Size)
		}
	}
	return nil
}

// pageSize is the maximum number of entries in a response.
const pageSize = 1000

// page returns the next objects after a key, in key order, and none at the end.
func (b *bucket) page(ctx context.Context, prefix, after string) ([]object, error) {
	query := url.Values{"list-type": {"2"}, "prefix": {prefix}, "encoding-type": {"url"},
		"max-keys": {strconv.Itoa(pageSize)}}
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

// marker is the start of the next page of versions.
type marker struct{ key, version string }

// versionPage returns the next versions and delete markers, in key order and newest first within a key.
func (b *bucket) versionPage(
	ctx context.Context, prefix string, from marker,
) (all []object, next marker, more bool, err error) {
	query := url.Values{"versions": {""}, "prefix": {prefix}, "encoding-type": {"url"},
		"max-keys": {strconv.Itoa(pageSize)}}
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
	// Some stores list the delete markers after the versions of all keys.
	slices.SortStableFunc(all, func(a, b object) int {
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

// decoded returns the decoded key.
func decoded(key, encoding string) string {
	if plain, err := url.QueryUnescape(key); err == nil && encoding == "url" {
		return plain
	}
	return key
}

// etagOf returns an ETag without quotation marks.
func etagOf(s string) string { return strings.Trim(s, `"`) }
