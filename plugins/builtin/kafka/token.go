package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/peer"
)

// tokenSource gets tokens with the client credentials grant (RFC 6749, section 4.4) and keeps each until shortly before
// it expires.
type tokenSource struct {
	url, id, secret, scope string

	mu      sync.Mutex
	current string
	until   time.Time
}

const (
	tokenTimeout = 30 * time.Second
	tokenMargin  = 30 * time.Second // a token is not used this close to its expiry
	tokenBytes   = 1 << 20          // maximum size of a response
)

func (t *tokenSource) token(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Now().Before(t.until) {
		return t.current, nil
	}
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	token, life, err := t.ask(ctx)
	if err != nil {
		return "", fmt.Errorf("cannot get a token: %w", err)
	}
	t.current, t.until = token, time.Now().Add(life-tokenMargin)
	return token, nil
}

var tokenClient = &http.Client{Transport: peer.Transport()}

func (t *tokenSource) ask(ctx context.Context) (token string, life time.Duration, err error) {
	form := url.Values{"grant_type": {"client_credentials"}}
	if t.scope != "" {
		form.Set("scope", t.scope)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, strings.NewReader(form.Encode()))
	if err != nil {
		return "", 0, errors.New("saslTokenURL is not a URL")
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.SetBasicAuth(url.QueryEscape(t.id), url.QueryEscape(t.secret))
	response, err := tokenClient.Do(request)
	if err != nil {
		return "", 0, withoutURL(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return "", 0, fmt.Errorf("the server responded with status %s", response.Status)
	}
	var answer struct {
		Token   string `json:"access_token"`
		Seconds int64  `json:"expires_in"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, tokenBytes)).Decode(&answer); err != nil ||
		answer.Token == "" {
		return "", 0, errors.New("the response has no access_token")
	}
	return answer.Token, time.Duration(answer.Seconds) * time.Second, nil
}

// withoutURL removes the URL, which may contain a password, from an error of package http.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
