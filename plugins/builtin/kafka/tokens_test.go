package kafka_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/kafka"
)

// TestTokens gets tokens with the client credentials grant, and keeps each while it is valid.
func TestTokens(t *testing.T) {
	asked, life := 0, "3600"
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		if id != "me" || secret != "s%26cret" || r.FormValue("grant_type") != "client_credentials" ||
			r.FormValue("scope") != "a b" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		asked++
		_, _ = w.Write([]byte(`{"access_token":"token` + strings.Repeat("x", asked) + `","expires_in":` + life + `}`))
	}))
	defer issuer.Close()
	tokens := kafka.NewTokens(issuer.URL, "me", "s&cret", "a b")
	for range 2 {
		if got, err := kafka.Token(t.Context(), tokens); got != "tokenx" || err != nil {
			t.Errorf("got %q: %v", got, err)
		}
	}
	life, tokens = "20", kafka.NewTokens(issuer.URL, "me", "s&cret", "a b")
	for _, want := range []string{"tokenxx", "tokenxxx"} { // expires too soon to be kept
		if got, err := kafka.Token(t.Context(), tokens); got != want || err != nil {
			t.Errorf("got %q, want %q: %v", got, want, err)
		}
	}
	if _, err := kafka.Token(t.Context(), kafka.NewTokens(issuer.URL, "me", "hidden", "")); err == nil ||
		!strings.Contains(err.Error(), "401") || strings.Contains(err.Error(), "hidden") {
		t.Errorf("with a wrong secret: %v", err)
	}
	base := map[string]string{"servers": "localhost:1", "saslMechanism": "OAUTHBEARER"}
	for setting, value := range map[string]string{"saslToken": "fixed", "saslTokenURL": issuer.URL} {
		s := map[string]string{setting: value, "saslUsername": "me", "saslPassword": "s&cret", "saslScope": "a b"}
		for k, v := range base {
			s[k] = v
		}
		want := map[string]string{"saslToken": "auth=Bearer fixed\x01", "saslTokenURL": "auth=Bearer token"}[setting]
		if got, err := kafka.FirstMessage(t.Context(), s); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: the client sends %q: %v", setting, got, err)
		}
	}
}
