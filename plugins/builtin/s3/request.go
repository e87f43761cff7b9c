package s3

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // a digest that stores ask for
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/minio/minio-go/v7/pkg/signer"
)

// request is a request to the bucket, or to an object in it.
type request struct {
	method string
	key    string // "" for the bucket
	query  url.Values
	header http.Header
	body   []byte
	size   int64 // of the response, if known
}

// Error codes of responses.
const (
	noSuchKey          = "NoSuchKey"
	noSuchBucket       = "NoSuchBucket"
	noSuchVersion      = "NoSuchVersion"
	accessDenied       = "AccessDenied"
	preconditionFailed = "PreconditionFailed"
	methodNotAllowed   = "MethodNotAllowed"
	notImplemented     = "NotImplemented"
	entityTooLarge     = "EntityTooLarge"
	invalidObjectState = "InvalidObjectState" // the object is archived
)

// storeError explains why a request failed. It has neither URL nor header.
type storeError struct {
	doing, text string
	code        string // of the response
	passes      bool   // the same request may succeed later
}

// Error implements error.
func (e storeError) Error() string { return e.doing + ": " + e.text }

// code returns the error code of the store's response, or "".
func code(err error) string {
	var e storeError
	_ = errors.As(err, &e)
	return e.code
}

// isPassing reports whether the failed request may succeed later.
func isPassing(err error) bool {
	var e storeError
	return errors.As(err, &e) && e.passes
}

// do sends a request and returns the header and the body of the response. doing, formatted with args, describes the
// request in errors.
func (b *bucket) do(ctx context.Context, r request, doing string, args ...any) (http.Header, []byte, error) {
	const perSecond = 256 << 10
	timeout := b.timeout + time.Duration((int64(len(r.body))+r.size)/perSecond)*time.Second
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	header, body, err := b.send(bounded, r)
	var answer storeError
	var inURL *url.Error
	switch {
	case err == nil:
		return header, body, nil
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case errors.As(err, &answer):
	case errors.As(err, &noKeyError{}):
		answer.text = err.Error()
	case bounded.Err() != nil:
		answer = storeError{text: fmt.Sprintf("the store did not respond within %v", timeout), passes: true}
	case errors.As(err, &inURL):
		answer = storeError{text: inURL.Err.Error(), passes: true}
	default:
		answer = storeError{text: err.Error(), passes: true}
	}
	answer.doing = fmt.Sprintf(doing, args...)
	return nil, nil, answer
}

func (b *bucket) send(ctx context.Context, r request) (http.Header, []byte, error) {
	req, err := b.sign(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	content := bytes.NewBuffer(make([]byte, 0, r.size+bytes.MinRead))
	if _, err := content.ReadFrom(io.LimitReader(resp.Body, max(r.size+1, maxAnswer))); err != nil {
		return nil, nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, nil, failure(resp, content.Bytes())
	}
	return resp.Header, content.Bytes(), nil
}

const maxAnswer = 8 << 20 // bytes of a response that is not an object

// maxMarkup is the maximum number of elements and attributes of a response. A decoder takes up to 500 bytes for each. A
// full page of a listing has about 20 elements per entry.
const maxMarkup = 100_000

// parse decodes a response.
func parse(body []byte, answer any) error {
	quotes := bytes.Count(body, []byte{'"'}) + bytes.Count(body, []byte{'\''})
	if n := bytes.Count(body, []byte{'<'})/2 + quotes/2; n > maxMarkup {
		return fmt.Errorf("it has about %d elements and attributes, more than the maximum of %d", n, maxMarkup)
	}
	return xml.Unmarshal(body, answer)
}

// sign returns the request with a signature in the header. It sends those digests of the body that every store accepts.
func (b *bucket) sign(ctx context.Context, r request) (*http.Request, error) {
	path := "/" + r.key
	if b.inPath {
		path = "/" + b.name + path
	}
	u := url.URL{Scheme: b.scheme, Host: b.host, Path: path, RawPath: s3utils.EncodePath(path),
		RawQuery: r.query.Encode()}
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, errors.New("the key cannot be part of a URL")
	}
	req.URL = &u
	for name, values := range r.header {
		req.Header[name] = values
	}
	sha := sha256.Sum256(r.body)
	req.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sha[:]))
	if r.method == http.MethodPut {
		md := md5.Sum(r.body) //nolint:gosec // what stores with retention ask for
		req.Header.Set("Content-Md5", base64.StdEncoding.EncodeToString(md[:]))
	}
	key, err := b.identity.GetWithContext(&credentials.CredContext{Client: b.client, Context: ctx})
	if err != nil {
		return nil, err
	}
	return signer.SignV4(*req, key.AccessKeyID, key.SecretAccessKey, key.SessionToken, b.region), nil
}

// failure returns the error of a failed response.
func failure(resp *http.Response, body []byte) error {
	var answer struct{ Code, Message string }
	_ = parse(body, &answer) // some responses have no body
	if answer.Code == "" {
		answer.Code = codeOf(resp)
	}
	text := "the store responded with " + answer.Code
	if answer.Message != "" {
		text += ": " + answer.Message
	}
	if region := resp.Header.Get("X-Amz-Bucket-Region"); resp.StatusCode/100 == 3 && region != "" {
		text += ": the bucket is in region " + region
	}
	return storeError{text: text, code: answer.Code, passes: passes(resp.StatusCode, answer.Code)}
}

// codeOf returns the code of a response without a body.
func codeOf(resp *http.Response) string {
	switch resp.StatusCode {
	case http.StatusNotFound:
		return noSuchKey
	case http.StatusForbidden:
		return accessDenied
	case http.StatusPreconditionFailed:
		return preconditionFailed
	case http.StatusMethodNotAllowed:
		return methodNotAllowed
	}
	return resp.Status
}

// passes reports whether a repeated request may succeed.
func passes(status int, code string) bool {
	switch code {
	case "RequestTimeout", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TemporaryRedirect",
		"ConditionalRequestConflict", "OperationAborted":
		return true
	case notImplemented:
		return false
	}
	return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests
}
