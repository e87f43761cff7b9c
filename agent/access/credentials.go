package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/reference"
)

// Token reads the bearer token, or another secret, in the file that the setting names. A bare name is the name of a
// credential, if systemd passed any. Token logs a warning if every user of the machine can read the file.
func Token(log *slog.Logger, setting, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	read := reference.ReadFile
	if !strings.ContainsRune(file, os.PathSeparator) && reference.HasCredentials() {
		read = reference.ReadCredential
	} else if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o007 != 0 {
		log.Warn("every user of this machine can read a token: chmod o= the file", "component", "api", "setting",
			setting, "file", file, "mode", info.Mode().Perm().String())
	}
	text, err := read(file)
	if text = strings.TrimSpace(text); err == nil && text == "" {
		err = fmt.Errorf("%s is empty", file)
	}
	if err != nil {
		return "", fmt.Errorf("cannot read the token in %s: %w", setting, err)
	}
	return text, nil
}

// encryption returns the TLS settings, nil for none.
func encryption(c config.TLS) (*tls.Config, error) {
	if c == (config.TLS{}) {
		return nil, nil
	}
	if c.CertFile == "" || c.KeyFile == "" {
		return nil, errors.New("cannot encrypt the API: api.tls.cert-file and api.tls.key-file go together")
	}
	certificate, err := keyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("cannot load the certificate in api.tls.cert-file: %w", err)
	}
	t := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"}}
	if c.ClientCAFile == "" {
		return t, nil
	}
	pem, err := reference.ReadFile(c.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read api.tls.client-ca-file: %w", err)
	}
	t.ClientCAs, t.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !t.ClientCAs.AppendCertsFromPEM([]byte(pem)) {
		return nil, fmt.Errorf("cannot read api.tls.client-ca-file: there is no PEM certificate in %s", c.ClientCAFile)
	}
	return t, nil
}

// keyPair reads a certificate and its key, from regular files of bounded size.
func keyPair(certFile, keyFile string) (tls.Certificate, error) {
	certificate, err := reference.ReadFile(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := reference.ReadFile(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair([]byte(certificate), []byte(key))
}
