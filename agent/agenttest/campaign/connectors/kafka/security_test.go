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
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
)

// certificate returns a certificate for 127.0.0.1 and its key, in PEM.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true,
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

// TestSecurity writes and reads with TLS, client certificates and each SASL mechanism, and fails if any is missing.
func TestSecurity(t *testing.T) {
	load.Parallel(t, load.Server)
	cert, key := certificate(t)
	k := server.StartKafka(t, server.KafkaOptions{Topics: "t:1", Cert: cert + key,
		Users: []string{"PLAIN plain secret1", "SCRAM-SHA-256 scram256 secret2", "SCRAM-SHA-512 scram512 secret3"}})
	w := &world{T: t, addr: k.Addr, topic: "t"}
	settings := func(mechanism, user, password string) map[string]string {
		return plainValue(w.destinationSettings("tls.enabled", "true", "caCert", cert, "clientCert", cert, "clientKey",
			key,
			"saslMechanism", mechanism, "saslUsername", user, "saslPassword", password))
	}
	for user, password := range map[string]string{"plain": "secret1", "scram256": "secret2", "scram512": "secret3"} {
		mechanism := map[string]string{"plain": "PLAIN", "scram256": "SCRAM-SHA-256", "scram512": "SCRAM-SHA-512"}[user]
		w.openDestination(settings(mechanism, user, password)).write(one(1, "v"))

		refused := w.destination(settings(mechanism, user, "wrong-secret"))
		if err := refused.Open(refused.ctx); err == nil || strings.Contains(err.Error(), "wrong-secret") ||
			!unavailable(err) {
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
