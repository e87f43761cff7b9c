package common

import (
	"crypto/tls"
	"crypto/x509"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// TLS contains the TLS settings of a connector, which embeds it. They are PEM texts, so that references can insert them
// from files and credentials.
type TLS struct {
	// Certificate chain to present, PEM text such as ${file:/etc/conduit/cert.pem}. A server with a certificate accepts
	// only TLS.
	Cert string `json:"tls.cert"`
	// Private key of tls.cert, PEM text.
	Key string `json:"tls.key"`
	// Certificates of the authorities that verify the certificate of the peer, PEM text. A server with this setting
	// requires client certificates; a client without it uses the authorities of the system.
	CA string `json:"tls.ca"`
	// Whether a client accepts any certificate of the server. For tests.
	Insecure bool `json:"tls.insecureSkipVerify" default:"false"`
}

// Client returns the TLS configuration of a client.
func (s *TLS) Client() (*tls.Config, error) {
	//nolint:gosec // certificates are accepted unverified only if the setting requests it
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: s.Insecure}
	var err error
	if c.RootCAs, err = s.authorities(); err != nil {
		return nil, err
	}
	c.Certificates, err = s.certificates()
	return c, err
}

// Server returns the TLS configuration of a server; nil if it does not use TLS.
func (s *TLS) Server() (*tls.Config, error) {
	own, err := s.certificates()
	if err != nil {
		return nil, err
	}
	clients, err := s.authorities()
	if err != nil {
		return nil, err
	}
	if len(own) == 0 {
		if clients != nil {
			return nil, sdk.SettingError{Setting: "tls.ca",
				Message: "needs tls.cert and tls.key: client certificates are part of TLS"}
		}
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: own, NextProtos: []string{"h2", "http/1.1"}}
	if clients != nil {
		c.ClientCAs, c.ClientAuth = clients, tls.RequireAndVerifyClientCert
	}
	return c, nil
}

func (s *TLS) certificates() ([]tls.Certificate, error) {
	switch {
	case s.Cert == "" && s.Key == "":
		return nil, nil
	case s.Cert == "":
		return nil, sdk.SettingError{Setting: "tls.cert", Message: "is required with tls.key"}
	case s.Key == "":
		return nil, sdk.SettingError{Setting: "tls.key", Message: "is required with tls.cert"}
	}
	pair, err := tls.X509KeyPair([]byte(s.Cert), []byte(s.Key))
	if err != nil {
		return nil, sdk.SettingError{Setting: "tls.cert", Message: "cannot be used with tls.key: " + err.Error()}
	}
	return []tls.Certificate{pair}, nil
}

func (s *TLS) authorities() (*x509.CertPool, error) {
	if s.CA == "" {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(s.CA)) {
		return nil, sdk.SettingError{Setting: "tls.ca",
			Message: "must be certificates as PEM text, such as ${file:/etc/conduit/ca.pem}"}
	}
	return pool, nil
}
