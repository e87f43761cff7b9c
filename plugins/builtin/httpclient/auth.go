package httpclient

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Auth are the credentials of requests, on both sides.
type Auth struct {
	// Token in the header Authorization, as Bearer TOKEN. By reference, such as ${file:/etc/conduit/token}.
	Token string `json:"auth.token"`
	// User of basic authentication.
	Username string `json:"auth.username"`
	// Password of basic authentication. By reference.
	Password string `json:"auth.password"`
}

// HMAC are the settings of signed bodies, on both sides.
type HMAC struct {
	// Key of an HMAC-SHA256 over the body, in the header auth.hmac.header. By reference.
	HMACSecret string `json:"auth.hmac.secret"`
	// Header with the HMAC: sha256= and hexadecimal digits. A server also accepts digits without the prefix.
	HMACHeader string `json:"auth.hmac.header" default:"X-Hub-Signature-256"`
}

// None reports whether the settings have no credentials.
func (s *Auth) None() bool { return s.Token == "" && s.Username == "" && s.Password == "" }

// CheckHeaders returns an error for a value that cannot be sent in a header.
func (s *Auth) CheckHeaders(headers map[string]string) error {
	errs := []error{sdk.CheckHeader("auth.token", s.Token)}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		errs = append(errs, sdk.CheckHeader("headers."+name, headers[name]))
	}
	return errors.Join(errs...)
}

// authorize adds the credentials to a request.
func (s *Auth) authorize(r *http.Request) {
	switch {
	case s.Token != "":
		r.Header.Set("Authorization", "Bearer "+s.Token)
	case s.Username != "" || s.Password != "":
		r.SetBasicAuth(s.Username, s.Password)
	}
}

// Admits reports whether the headers of a request have valid credentials. It compares digests in constant time.
func (s *Auth) Admits(r *http.Request) bool {
	if s.Token != "" {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		return strings.EqualFold(scheme, "Bearer") && same(strings.TrimSpace(token), s.Token)
	}
	if s.Username != "" || s.Password != "" {
		user, password, _ := r.BasicAuth()
		return same(user, s.Username) && same(password, s.Password)
	}
	return true
}

func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// sign adds the signature of the body to a request, if there is a secret.
func (s *HMAC) sign(r *http.Request, body []byte) {
	if s.HMACSecret != "" {
		r.Header.Set(s.HMACHeader, "sha256="+hex.EncodeToString(s.mac(body)))
	}
}

// Signed reports whether the body has a valid signature. Without an HMAC secret every body is valid.
func (s *HMAC) Signed(r *http.Request, body []byte) bool {
	if s.HMACSecret == "" {
		return true
	}
	got, err := hex.DecodeString(strings.TrimPrefix(r.Header.Get(s.HMACHeader), "sha256="))
	return err == nil && hmac.Equal(got, s.mac(body))
}

func (s *HMAC) mac(body []byte) []byte {
	m := hmac.New(sha256.New, []byte(s.HMACSecret))
	m.Write(body)
	return m.Sum(nil)
}
