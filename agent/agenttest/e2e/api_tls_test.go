package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         string
}

func newAuthority(t *testing.T) *authority {
	a := &authority{}
	a.certificate, a.key, a.pem = certificate(t, nil, 1)
	return a
}

// certificate makes one that by signed, nil standing for itself.
func certificate(t *testing.T, by *authority, serial int64) (*x509.Certificate, *ecdsa.PrivateKey, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: by == nil, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made, key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// pair returns a certificate and its key, in PEM.
func (a *authority) pair(t *testing.T) (cert, key string) {
	t.Helper()
	_, private, cert := certificate(t, a, 2)
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return cert, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

// client returns a client that trusts the authority and shows a certificate of by's,
// unless that is nil.
func (a *authority) client(t *testing.T, address string, by *authority) *client.Client {
	t.Helper()
	c := &tls.Config{RootCAs: x509.NewCertPool()}
	c.RootCAs.AddCert(a.certificate)
	if by != nil {
		pair, err := tls.X509KeyPair(pemPair(by.pair(t)))
		if err != nil {
			t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{TLSClientConfig: c}
	t.Cleanup(transport.CloseIdleConnections)
	return &client.Client{URL: "https://" + address, HTTP: &http.Client{Transport: transport}}
}

func pemPair(cert, key string) (a, b []byte) { return []byte(cert), []byte(key) }

// seesRecord returns errSeen when an inspector sees a few records.
func seesRecord(t *testing.T, at *client.Client) error {
	n := 0
	return at.Inspect(t.Context(), "p:src", nil, func(client.Message) error {
		if n++; n < 30 { // until what it sent was checked
			return nil
		}
		return errSeen
	})
}

func TestEncryption(t *testing.T) {
	t.Parallel()
	trusted, strange := newAuthority(t), newAuthority(t)
	cert, key := trusted.pair(t)
	encrypted := config.TLS{CertFile: secretFile(t, cert), KeyFile: secretFile(t, key)}
	mutual := encrypted
	mutual.ClientCAFile = secretFile(t, trusted.pem)
	for name, c := range map[string]struct {
		tls                    config.TLS
		none, stranger, friend bool // get an answer
	}{
		"TLS":        {encrypted, true, true, true},
		"mutual TLS": {mutual, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := startWeb(t, "", func(s *config.Config) { s.API.TLS = c.tls })
			w.Save("p.yaml", made(w.Dir, "p", 100, ""))
			w.WaitPhase("p", spec.PhaseRunning, 1)
			if _, err := w.api.Info(t.Context()); err == nil {
				t.Error("answered without encryption")
			}
			for _, one := range []struct {
				who  string
				by   *authority
				want bool
			}{{"no certificate", nil, c.none}, {"a stranger", strange, c.stranger}, {"a friend", trusted, c.friend}} {
				at := trusted.client(t, w.Address(), one.by)
				if _, err := at.Info(t.Context()); (err == nil) != one.want {
					t.Errorf("%s: error %v", one.who, err)
				}
				if err := seesRecord(t, at); one.want && err != errSeen {
					t.Errorf("%s, inspecting: error %v", one.who, err)
				}
				if _, _, err := at.CreatePipeline(t.Context(), "", rest.PipelineConfig{Name: one.who}); (err == nil) != one.want {
					t.Errorf("%s, changing: error %v", one.who, err)
				}
			}
		})
	}
	for name, c := range map[string]struct {
		tls  config.TLS
		want string
	}{
		"no key":         {config.TLS{CertFile: encrypted.CertFile}, "api.tls.key-file"},
		"no certificate": {config.TLS{ClientCAFile: mutual.ClientCAFile}, "api.tls.cert-file"},
		"no PEM":         {config.TLS{CertFile: encrypted.CertFile, KeyFile: encrypted.KeyFile, ClientCAFile: secretFile(t, "x")}, "no PEM certificate"},
		"no file":        {config.TLS{CertFile: "/nowhere", KeyFile: "/nowhere"}, "api.tls.cert-file"},
	} {
		cfg := settings(t, "127.0.0.1:0")
		cfg.API.TLS = c.tls
		if err := agent.Run(t.Context(), quiet(cfg)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", name, err, c.want)
		}
	}
}
