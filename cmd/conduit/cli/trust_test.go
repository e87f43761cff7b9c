package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/config"
)

// issued returns a certificate as template says, signed by an authority that nobody knows, or by itself.
func issued(t *testing.T, template *x509.Certificate, selfSigned bool) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.Subject = big.NewInt(1), pkix.Name{CommonName: "agent"}
	issuer, signer := template, key
	if !selfSigned {
		issuer = &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "Our CA"}, IsCA: true,
			BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
		if signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func inPEM(c tls.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}))
}

// Commands and doctor give the cause and the remedy for a certificate of the agent that cannot be verified.
func TestUnverifiableCertificates(t *testing.T) {
	t.Parallel()
	now, here := time.Now(), []net.IP{net.IPv4(127, 0, 0, 1)}
	for name, c := range map[string]struct {
		template   x509.Certificate
		selfSigned bool
		trusted    bool // its authority is known
		want       string
	}{
		"self-signed": {x509.Certificate{NotAfter: now.Add(time.Hour), IPAddresses: here}, true, false,
			"The certificate is self-signed: if the address is correct, set api.client.ca-file"},
		"unknown authority": {x509.Certificate{NotAfter: now.Add(time.Hour), IPAddresses: here}, false, false,
			`This machine does not know "CN=Our CA", which issued the certificate`},
		"another host": {x509.Certificate{NotAfter: now.Add(time.Hour), DNSNames: []string{"edge.example.com"}}, true, true,
			"It is valid for edge.example.com."},
		"expired": {x509.Certificate{NotAfter: now.Add(-time.Hour), IPAddresses: here}, true, true,
			"Renew the certificate in api.tls.cert-file of the agent, or set the clock: it is valid from"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			certificate := issued(t, &c.template, c.selfSigned)
			server := httptest.NewUnstartedServer(http.NotFoundHandler())
			server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.StartTLS()
			t.Cleanup(server.Close)
			dir := t.TempDir()
			words := []string{"--api.address", server.URL,
				"--config.path", file(t, "pipelines.path: "+dir+"\ndb.sqlite.path: "+dir+"/none.db")}
			if c.trusted {
				words = append(words, "--api.client.ca-file", file(t, inPEM(certificate)))
			}
			if code, _, stderr := runHere(t, nil, append([]string{"status"}, words...)...); code != ExitEnvironment ||
				!strings.Contains(stderr, c.want) {
				t.Errorf("status ended with %d: %s", code, stderr)
			}
			_, stdout, _ := runHere(t, nil, append([]string{"doctor", "--json"}, words...)...)
			var findings []Finding
			if err := json.Unmarshal([]byte(stdout), &findings); err != nil {
				t.Fatalf("%v in %s", err, stdout)
			}
			i := slices.IndexFunc(findings, func(f Finding) bool { return f.Check == "agent" })
			if i < 0 || findings[i].Level != Error || !strings.Contains(findings[i].Advice, c.want) ||
				!strings.Contains(findings[i].Message, "do not trust each other") {
				t.Errorf("doctor found %+v", findings)
			}
		})
	}
}

// doctor checks how long the certificate of the API is valid, for whom, and whether the key belongs to it.
func TestDoctorChecksTheCertificate(t *testing.T) {
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	valid := func(from, to time.Duration, names ...string) tls.Certificate {
		return issued(t, &x509.Certificate{NotBefore: now.Add(from), NotAfter: now.Add(to), DNSNames: names}, true)
	}
	const day = 24 * time.Hour
	check := func(certificate, key string, want Finding) {
		t.Helper()
		e := &examination{config: config.Config{API: config.API{TLS: config.TLS{CertFile: certificate, KeyFile: key}}}}
		e.certificate(now)
		advice := want.Level == Error || want.Level == Warning
		if len(e.findings) != 1 || e.findings[0].Level != want.Level ||
			!strings.Contains(e.findings[0].Message, want.Message) || advice && e.findings[0].Advice == "" {
			t.Errorf("found %+v, want %+v", e.findings, want)
		}
	}
	keyOf := func(c tls.Certificate) string {
		key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		return file(t, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	}
	for _, c := range []struct {
		certificate tls.Certificate
		want        Finding
	}{
		{valid(-day, 30*day, "h"), Finding{Level: OK, Message: "valid until 2026-07-01T00:00:00Z for h"}},
		{valid(-day, 6*day, "h"), Finding{Level: Warning, Message: "expires at 2026-06-07T00:00:00Z"}},
		{valid(-2*day, -day, "h"), Finding{Level: Error, Message: "expired at 2026-05-31T00:00:00Z"}},
		{valid(day, 30*day, "h"), Finding{Level: Error, Message: "is not valid before 2026-06-02T00:00:00Z"}},
		{valid(-day, 30*day), Finding{Level: Warning, Message: "is valid for no host"}},
	} {
		check(file(t, inPEM(c.certificate)), keyOf(c.certificate), c.want)
	}
	one, other := valid(-day, 30*day, "h"), valid(-day, 30*day, "h")
	path, key := file(t, inPEM(one)), keyOf(other)
	check(path, key, Finding{Level: Error, Message: path + " and " + key + ": tls: private key does not match"})
	keyText, err := os.ReadFile(keyOf(one))
	if err != nil {
		t.Fatal(err)
	}
	both := file(t, string(keyText)+inPEM(one))
	check(both, both, Finding{Level: OK, Message: "valid until"})
	check(file(t, "no PEM"), key, Finding{Level: Error, Message: "contains no PEM certificate"})
	broken := file(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})))
	check(broken, key, Finding{Level: Error, Message: "cannot read the certificate in"})
	check("", "", Finding{Level: OK})
	check("/nonexistent", key, Finding{Level: Unknown})
}
