package kafka_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/kafka"
	"github.com/conduit-agent/conduit/plugins/plugintest/server"
)

// certificate returns a certificate of 127.0.0.1 and its key, in PEM.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", text)
}

// TestSecurity writes and reads with TLS, client certificates and each mechanism of SASL, and not
// without one of them.
func TestSecurity(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	k := server.StartKafka(t, server.KafkaOptions{Topics: "t:1", Cert: cert + key,
		Users: []string{"PLAIN plain secret1", "SCRAM-SHA-256 scram256 secret2", "SCRAM-SHA-512 scram512 secret3"}})
	w := &world{T: t, addr: k.Addr, topic: "t"}
	settings := func(mechanism, user, password string) map[string]string {
		return plainValue(w.destinationSettings("tls.enabled", "true", "caCert", cert, "clientCert", cert, "clientKey", key,
			"saslMechanism", mechanism, "saslUsername", user, "saslPassword", password))
	}
	for user, password := range map[string]string{"plain": "secret1", "scram256": "secret2", "scram512": "secret3"} {
		mechanism := map[string]string{"plain": "PLAIN", "scram256": "SCRAM-SHA-256", "scram512": "SCRAM-SHA-512"}[user]
		w.openDestination(settings(mechanism, user, password)).write(one(1, "v"))

		refused := w.destination(settings(mechanism, user, "wrong-secret"))
		if err := refused.Open(refused.ctx); err == nil || strings.Contains(err.Error(), "wrong-secret") || !unavailable(err) {
			t.Errorf("%s with a wrong password: %v", mechanism, err)
		}
	}
	for _, without := range []string{"clientCert", "caCert", "tls.enabled", "saslMechanism"} {
		s := settings("PLAIN", "plain", "secret1")
		delete(s, without)
		if without == "clientCert" {
			delete(s, "clientKey")
		}
		d := w.destination(s)
		if err := d.Open(d.ctx); err == nil || !strings.Contains(err.Error(), "cannot reach any broker") {
			t.Errorf("without %s: %v", without, err)
		}
	}
	s := settings("PLAIN", "plain", "secret1")
	for _, name := range []string{"topic", "sdk.record.format", "sdk.record.format.options"} {
		delete(s, name)
	}
	for name, value := range w.settings() {
		s[name] = value
	}
	w.open(s, nil).want("v", "v", "v")
}

// TestTokens gets tokens with the client credentials grant, and keeps each while it is valid.
func TestTokens(t *testing.T) {
	asked, life := 0, "3600"
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		if id != "me" || secret != "s%26cret" || r.FormValue("grant_type") != "client_credentials" || r.FormValue("scope") != "a b" {
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
	if _, err := kafka.Token(t.Context(), kafka.NewTokens(issuer.URL, "me", "hidden", "")); err == nil || !strings.Contains(err.Error(), "401") || strings.Contains(err.Error(), "hidden") {
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
