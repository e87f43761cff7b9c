package http_test

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
	nethttp "net/http"
	"strings"
	"testing"
	"time"
)

// certificate returns one that signed itself, for servers and clients at 127.0.0.1.
func certificate(t *testing.T) (cert, key string, pair tls.Certificate) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	key = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
	if pair, err = tls.X509KeyPair([]byte(cert), []byte(key)); err != nil {
		t.Fatal(err)
	}
	return cert, key, pair
}

// TestTLS has the destination send to the source, both with certificates that the other checks.
func TestTLS(t *testing.T) {
	serverCert, serverKey, _ := certificate(t)
	clientCert, clientKey, pair := certificate(t)
	s, addr := listening(t, map[string]string{"tls.cert": serverCert, "tls.key": serverKey, "tls.ca": clientCert})
	d := destination(t, map[string]string{"url": "https://" + addr + "/", "tls.ca": serverCert, "tls.cert": clientCert, "tls.key": clientKey})
	written := make(chan error, 1)
	go func() { _, err := d.Write(t.Context(), records("one")); written <- err }()
	ack(t, s, read(t, s, 1))
	if err := <-written; err != nil {
		t.Error(err)
	}
	for name, settings := range map[string]map[string]string{
		"no client certificate":     {"tls.ca": serverCert},
		"certificate of a server":   {"tls.ca": serverCert, "tls.cert": serverCert, "tls.key": serverKey},
		"authority that is unknown": {"tls.ca": clientCert, "tls.cert": clientCert, "tls.key": clientKey},
	} {
		settings["url"], settings["retry.timeout"] = "https://"+addr+"/", "0s"
		if n, err := destination(t, settings).Write(t.Context(), records("no")); n != 0 || err == nil || !lost(err) {
			t.Errorf("%s: wrote %d: %v", name, n, err)
		}
	}
	old := &nethttp.Client{Transport: &nethttp.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11, InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}}}
	r := request(t, addr, "old")
	r.URL.Scheme = "https"
	if a := send(old, r); a.err == nil || !strings.Contains(a.err.Error(), "protocol version") {
		t.Errorf("TLS 1.1 is answered %d %v", a.status, a.err)
	}
}

// lost reports whether an error is no record's fault.
func lost(err error) bool {
	l, ok := err.(interface{ Lost() bool })
	return ok && l.Lost()
}
