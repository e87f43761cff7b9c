package network

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
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	PEM         string // its self-signed certificate
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority returns an authority with a self-signed certificate.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{}
	a.certificate, a.key, a.PEM = a.sign(t, 1, func(*x509.Certificate) {})
	return a
}

// sign returns a certificate for a server at 127.0.0.1 and for a client, or the authority's certificate if there is
// none yet. change may change its content.
func (a *Authority) sign(
	t testing.TB, serial int64, change func(*x509.Certificate),
) (made *x509.Certificate, key *ecdsa.PrivateKey, text string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: a.key == nil, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	change(template)
	parent, signer := a.certificate, a.key
	if a.key == nil {
		template.KeyUsage |= x509.KeyUsageCertSign
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	if made, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return made, key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// Pair returns a certificate that the authority signed, and its key, as PEM texts.
func (a *Authority) Pair(t testing.TB) (cert, key string) {
	t.Helper()
	return a.PairWith(t, func(*x509.Certificate) {})
}

// PairWith is like Pair, with the changes that change makes.
func (a *Authority) PairWith(t testing.TB, change func(*x509.Certificate)) (cert, key string) {
	t.Helper()
	_, private, cert := a.sign(t, 2, change)
	return cert, privateKey(t, private)
}

// Pool trusts the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

func privateKey(t testing.TB, key *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// Certificate returns a self-signed certificate, for a server at 127.0.0.1 or a client, and its key, as PEM texts and
// as a pair.
func Certificate(t testing.TB) (cert, key string, pair tls.Certificate) {
	t.Helper()
	a := NewAuthority(t)
	key = privateKey(t, a.key)
	pair, err := tls.X509KeyPair([]byte(a.PEM), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return a.PEM, key, pair
}
