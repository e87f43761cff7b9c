package notification

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/peer"
)

const (
	requestTimeout = 10 * time.Second
	secretPrefix   = "whsec_" // of a secret in base64
)

// Webhook sends notifications with POST, signed according to https://www.standardwebhooks.com: the header
// webhook-signature has the HMAC-SHA256 of the headers webhook-id and webhook-timestamp and the body, with dots
// between them. Make it with NewWebhook.
type Webhook struct {
	url     *url.URL
	secret  func() (string, error)
	version string
	client  *http.Client
}

// NewWebhook returns a webhook. It calls secret for every request, so that the secret can be replaced in place; nil
// sends requests without a signature.
func NewWebhook(at string, secret func() (string, error), version string) (*Webhook, error) {
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		// the URL may contain a secret
		return nil, errors.New("it is not a URL such as https://example.com/hooks/conduit")
	}
	return &Webhook{url: u, secret: secret, version: version, client: &http.Client{
		Transport: peer.Transport(),
		Timeout:   requestTimeout,
		// a signature is for one receiver
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Name implements Target: the path may contain a secret.
func (w *Webhook) Name() string { return "webhook " + w.url.Scheme + "://" + w.url.Host }

// Send implements Target.
func (w *Webhook) Send(ctx context.Context, n *Notification, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url.String(), bytes.NewReader(body))
	if err != nil {
		return &refused{errors.New("cannot create the request")}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "conduit/"+w.version)
	if err := w.sign(r, n.ID, body); err != nil {
		return err
	}
	answer, err := w.client.Do(r)
	if err != nil {
		if in := (*url.Error)(nil); errors.As(err, &in) {
			err = in.Err // without the URL
		}
		return fmt.Errorf("%s does not respond: %w", w.Name(), err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // allows reuse of the connection
	return w.judge(answer)
}

// judge returns nil for a response that accepts the notification.
func (w *Webhook) judge(answer *http.Response) error {
	err := fmt.Errorf("%s answers %s", w.Name(), answer.Status)
	switch code := answer.StatusCode; {
	case code/100 == 2:
		return nil
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests,
		code/100 == 5:
		return err
	}
	return &refused{err}
}

// sign adds the headers by which a receiver verifies the sender and time of body.
func (w *Webhook) sign(r *http.Request, id string, body []byte) error {
	at := strconv.FormatInt(time.Now().Unix(), 10)
	r.Header.Set("webhook-id", id)
	r.Header.Set("webhook-timestamp", at)
	if w.secret == nil {
		return nil
	}
	key, err := w.key()
	if err != nil {
		return fmt.Errorf("cannot sign a notification: %w", err)
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	r.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return nil
}

func (w *Webhook) key() ([]byte, error) {
	secret, err := w.secret()
	if err != nil {
		return nil, err
	}
	return keyOf(secret)
}

// minSecret is the minimum length of a secret that signs notifications.
const minSecret = 24

// CheckSecret returns an error with the remedy if the text of the secret file cannot sign notifications.
func CheckSecret(secret string) error {
	if len(secret) < minSecret {
		return fmt.Errorf("the secret in notify.webhook.secret-file has %d characters, but needs %d: create one with "+
			"'echo \"whsec_$(openssl rand -base64 32)\"'", len(secret), minSecret)
	}
	_, err := keyOf(secret)
	return err
}

func keyOf(secret string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(secret, secretPrefix)
	if !ok {
		return []byte(secret), nil
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, errors.New("the part of the secret after whsec_ is not base64")
	}
	return key, nil
}
