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

// doctor checks how long the certificate of the API is valid.
func TestDoctorChecksTheCertificate(t *testing.T) {
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	valid := func(from, to time.Duration) string {
		return inPEM(issued(t, &x509.Certificate{NotBefore: now.Add(from), NotAfter: now.Add(to),
			DNSNames: []string{"h"}}, true))
	}
	const day = 24 * time.Hour
	for content, want := range map[string]Finding{
		valid(-day, 30*day): {Level: OK, Message: "valid until 2026-07-01T00:00:00Z for h"},
		valid(-day, 6*day):  {Level: Warning, Message: "expires at 2026-06-07T00:00:00Z"},
		valid(-2*day, -day): {Level: Error, Message: "expired at 2026-05-31T00:00:00Z"},
		valid(day, 30*day):  {Level: Error, Message: "is not valid before 2026-06-02T00:00:00Z"},
		"no PEM":            {Level: Error, Message: "contains no PEM certificate"},
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})): {Level: Error,
			Message: "cannot read the certificate in"},
	} {
		e := &examination{config: config.Config{API: config.API{TLS: config.TLS{CertFile: file(t, content)}}}}
		e.certificate(now)
		if len(e.findings) != 1 || e.findings[0].Level != want.Level ||
			!strings.Contains(e.findings[0].Message, want.Message) || (e.findings[0].Advice == "") != (want.Level == OK) {
			t.Errorf("found %+v, want %+v", e.findings, want)
		}
	}
	for path, want := range map[string]Level{"": OK, "/nonexistent": Unknown} {
		e := &examination{config: config.Config{API: config.API{TLS: config.TLS{CertFile: path}}}}
		if e.certificate(now); len(e.findings) != 1 || e.findings[0].Level != want {
			t.Errorf("for %q found %+v", path, e.findings)
		}
	}
}
