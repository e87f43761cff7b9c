package notification_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/notification"
)

const secret = "an-old-secret-of-32-characters-0"

var one = &notification.Notification{ID: "conduit-1", At: time.Unix(1, 0), Kind: notification.Degraded,
	Pipeline: "orders", Message: "because"}

// verified reports whether r is signed with key according to the Standard Webhooks specification.
func verified(r *http.Request, body []byte, key []byte) bool {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), body)
	return r.Header.Get("webhook-signature") == "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func send(t *testing.T, target notification.Target) error {
	t.Helper()
	body, err := json.Marshal(one)
	if err != nil {
		t.Fatal(err)
	}
	return target.Send(t.Context(), one, body)
}

func TestWebhookIsSigned(t *testing.T) {
	key := []byte(secret)
	var got notification.Notification
	began := time.Now().Unix()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		at, _ := strconv.ParseInt(r.Header.Get("webhook-timestamp"), 10, 64)
		if !verified(r, body, key) || at < began || at > time.Now().Unix() || r.Method != http.MethodPost ||
			r.Header.Get("Content-Type") != "application/json" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_ = json.Unmarshal(body, &got)
	}))
	defer server.Close()
	use := secret
	hook, err := notification.NewWebhook(server.URL+"/in/T0KEN", func() (string, error) { return use, nil }, "v1")
	if err != nil {
		t.Fatal(err)
	}
	if err := send(t, hook); err != nil || got.ID != one.ID || got.Pipeline != "orders" {
		t.Errorf("%v, received %+v", err, got)
	}
	use, key = "whsec_"+base64.StdEncoding.EncodeToString([]byte("replaced")), []byte("replaced")
	if err := send(t, hook); err != nil {
		t.Errorf("with a secret that was replaced: %v", err)
	}
	key = []byte("another")
	if err := send(t, hook); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("with another secret: %v", err)
	}
}

// Errors have the response of the receiver, and neither the path nor the secret.
func TestWebhookErrors(t *testing.T) {
	status, asked := 0, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
	}))
	hook, err := notification.NewWebhook(server.URL+"/in/T0KEN?key=T0KEN", func() (string, error) {
		return secret, nil
	}, "v1")
	if err != nil {
		t.Fatal(err)
	}
	for _, status = range []int{302, 400, 404, 429, 500, 503} {
		asked = 0
		err := send(t, hook)
		if err == nil || !strings.Contains(err.Error(), strconv.Itoa(status)) || asked != 1 {
			t.Errorf("status %d after %d requests: %v", status, asked, err)
		}
		if again := !notification.Refused(err); again != (status == 429 || status >= 500) {
			t.Errorf("status %d is tried again: %v", status, again)
		}
	}
	server.Close()
	err = send(t, hook)
	if err == nil || strings.Contains(err.Error()+hook.Name(), "T0KEN") || strings.Contains(err.Error(), secret) ||
		notification.Refused(err) {
		t.Errorf("without a receiver: %v, of %s", err, hook.Name())
	}
	for _, at := range []string{"example.com", "ftp://example.com", "https://", "https://user:T0KEN@exa mple"} {
		if _, err := notification.NewWebhook(at, nil, ""); err == nil || strings.Contains(err.Error(), "T0KEN") {
			t.Errorf("the URL %q: %v", at, err)
		}
	}
}

func TestCommand(t *testing.T) {
	dir := t.TempDir()
	shell := func(script string, timeout time.Duration) *notification.Command {
		t.Helper()
		line, _ := json.Marshal([]string{"/bin/sh", "-c", script, "T0KEN"})
		c, err := notification.NewCommand(string(line), []string{"PATH=" + os.Getenv("PATH"), "KEPT=yes"}, timeout)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Setenv("CONDUIT_SECRET", "hidden")
	out := filepath.Join(dir, "out")
	if err := send(t, shell("cat >"+out+"; echo $KEPT$CONDUIT_SECRET >>"+out, time.Minute)); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(out); !strings.Contains(string(text), `"kind":"degraded"`) ||
		!strings.HasSuffix(string(text), "}yes\n") {
		t.Errorf("the command got %s", text)
	}
	if err := send(t, shell("cat >/dev/null; echo no pager >&2; exit 3", time.Minute)); err == nil ||
		!strings.Contains(err.Error(), "exit status 3: no pager") || strings.Contains(err.Error(), "T0KEN") {
		t.Errorf("a command that fails: %v", err)
	}
	for _, line := range []string{"page --now", "[]", `[""]`, `{"a":1}`} {
		if _, err := notification.NewCommand(line, nil, time.Second); err == nil {
			t.Errorf("%s is taken as a command", line)
		}
	}
}
