package s3_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/s3"
)

// TestSessionToken sends the token of a temporary key.
func TestSessionToken(t *testing.T) {
	var got http.Header
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer s.Close()
	src := &s3.Source{}
	if err := src.Configure(t.Context(), settings(strings.TrimPrefix(s.URL, "http://"), "aws.sessionToken",
		"session")); err != nil {
		t.Fatal(err)
	}
	_ = src.Open(t.Context(), nil) // the answer is not a listing
	if got.Get("X-Amz-Security-Token") != "session" ||
		!strings.Contains(got.Get("Authorization"), "Credential=conduit/") {
		t.Errorf("sent %v", got)
	}
}

// TestNoIdentity lists the places that were searched for an access key.
func TestNoIdentity(t *testing.T) {
	for _, v := range []string{"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_WEB_IDENTITY_TOKEN_FILE"} {
		t.Setenv(v, "")
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1")
	set := settings("127.0.0.1:1")
	delete(set, "aws.accessKeyId")
	delete(set, "aws.secretAccessKey")
	src := &s3.Source{}
	if err := src.Configure(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	err := src.Open(t.Context(), nil)
	for _, part := range []string{"no access key found", "environment: not found", "file: ", "role: "} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want %s", err, part)
		}
	}
}
