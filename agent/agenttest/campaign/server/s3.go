package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/signer"
)

// S3 is a gateway of the S3 protocol that keeps objects as files. Its access key is conduit.
type S3 struct {
	*Process
	Addr string
	dir  string
}

// S3Domain is the domain of the gateway: buckets are hosts in it. At every other host the gateway accepts buckets in
// paths. DNS has no names in the domain.
const S3Domain = "s3.test"

// StartS3 builds a gateway from a separate module, if necessary, and starts it with this secret. If cert, the PEM text
// of a certificate and its key, is not empty, it uses TLS.
func StartS3(t testing.TB, secret, cert string) *S3 {
	t.Helper()
	path := goServer(t, "versitygw")
	s := &S3{Addr: fmt.Sprintf("127.0.0.1:%d", network.FreePort(t)), dir: Dir(t)}
	args := []string{"-addr", s.Addr, "-secret", s.file("secret"), "-data", s.directory(t, "data"), "-versions",
		s.directory(t, "versions"), "-domain", S3Domain}
	if cert != "" {
		args = append(args, "-cert", s.file("cert"))
		if err := os.WriteFile(s.file("cert"), []byte(cert), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.SetSecret(t, secret)
	s.Process = &Process{Path: path, Args: args, Dir: s.dir, Ready: func(ctx context.Context) error {
		return accepts(ctx, s.Addr)
	}}
	s.Launch(t)
	return s
}

func (s *S3) file(name string) string { return filepath.Join(s.dir, name) }

// directory creates a directory owned by the user that runs the server.
func (s *S3) directory(t testing.TB, name string) string {
	t.Helper()
	Run(t, s.dir, "mkdir", s.file(name))
	return s.file(name)
}

// SetSecret replaces the secret, from the next start on.
func (s *S3) SetSecret(t testing.TB, secret string) {
	t.Helper()
	if err := os.WriteFile(s.file("secret"), []byte(secret), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Do sends a signed request, and returns header and body of the answer. path is /BUCKET/KEY, escaped, query such as
// versions&prefix=x. Every status but 2xx is an error, a *RefusedError.
func (s *S3) Do(
	ctx context.Context, method, path, query string, header http.Header, body []byte,
) (http.Header, []byte, error) {
	secret, err := os.ReadFile(s.file("secret"))
	if err != nil {
		return nil, nil, err
	}
	u, err := url.Parse(fmt.Sprintf("http://%s%s?%s", s.Addr, path, query))
	if err != nil {
		return nil, nil, err
	}
	u.RawQuery = u.Query().Encode()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if header != nil {
		req.Header = header.Clone()
	}
	sum := sha256.Sum256(body)
	req.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	resp, err := http.DefaultClient.Do(signer.SignV4(*req, "conduit", string(secret), "", "us-east-1"))
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = &RefusedError{Status: resp.StatusCode, Request: method + " " + path, Answer: string(answer)}
	}
	return resp.Header, answer, err
}

// RefusedError is an answer other than 2xx.
type RefusedError struct {
	Status          int
	Request, Answer string
}

// Error implements error.
func (r *RefusedError) Error() string {
	return fmt.Sprintf("%s: answered %d: %s", r.Request, r.Status, r.Answer)
}

// Must sends a request as Do does, and fails the test when it fails.
func (s *S3) Must(t testing.TB, method, path, query, body string) []byte {
	t.Helper()
	_, answer, err := s.Do(t.Context(), method, path, query, nil, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// Keep enables versions for a bucket.
func (s *S3) Keep(t testing.TB, bucket string) {
	t.Helper()
	s.Must(t, "PUT", "/"+bucket, "versioning=",
		`<VersioningConfiguration `+
			`xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Status>Enabled</Status></VersioningConfiguration>`)
}

// Link writes an object that appears now with an earlier time, as in a store that assigns the time of an object before
// its name.
func (s *S3) Link(t testing.TB, bucket, key, body string, at time.Time) {
	t.Helper()
	stage := s.directory(t, "data/stage-"+key)
	s.Must(t, "PUT", "/stage-"+key+"/"+key, "", body)
	path := filepath.Join(stage, key)
	if err := cmp.Or(os.Chtimes(path, at, at), os.Rename(path, filepath.Join(s.file("data"), bucket, key))); err !=
		nil {
		t.Fatal(err)
	}
}

// Files returns the content of the objects in a bucket, by key, as they are on disk.
func (s *S3) Files(t testing.TB, bucket string) map[string]string {
	t.Helper()
	all, root := map[string]string{}, filepath.Join(s.file("data"), bucket)
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		var content []byte
		if err == nil && !d.IsDir() {
			content, err = os.ReadFile(path)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist): // the server removed or replaced it meanwhile
			return nil
		case err != nil || d.IsDir():
			return err
		}
		key, _ := filepath.Rel(root, path)
		all[key] = string(content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// ParquetCat returns the path of a program that prints the rows of a Parquet file.
func ParquetCat(t testing.TB) string {
	t.Helper()
	return goServer(t, "parquetcat")
}
