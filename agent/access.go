package agent

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/api"
)

// secure sets who may do what, and refuses settings that do not say.
func (a *Agent) secure(server *api.Server, c config.API) (err error) {
	if server.ReadToken, err = token(a.options.Log, "api.auth.read-token-file", c.Auth.ReadTokenFile); err != nil {
		return err
	}
	if server.AdminToken, err = token(a.options.Log, "api.auth.admin-token-file", c.Auth.AdminTokenFile); err != nil {
		return err
	}
	if server.ReadToken != "" && server.ReadToken == server.AdminToken {
		a.options.Log.Warn("the read token is the admin token, so that who reads may do everything", "component", "api")
	}
	if server.TLS, err = encryption(c.TLS); err != nil {
		return err
	}
	server.Origins, err = origins(c.HTTP.CORS.AllowedOrigins)
	return err
}

// environmentError is an error that the machine is to blame for.
type environmentError struct{ error }

// Environment reports that nothing the user wrote is wrong.
func (*environmentError) Environment() bool { return true }

// Unwrap returns the cause.
func (e *environmentError) Unwrap() error { return e.error }

// settingError is an error that the settings are to blame for, unless its cause is an
// environmentError.
type settingError struct{ error }

// Invalid reports that what the user wrote is wrong.
func (*settingError) Invalid() bool { return true }

// Unwrap returns the cause.
func (e *settingError) Unwrap() error { return e.error }

// hosts returns the names under which the API may be asked.
func hosts(c config.API) []string {
	all := strings.FieldsFunc(c.AllowedHosts, func(r rune) bool { return r == ',' || r == ' ' })
	if host, _, err := net.SplitHostPort(c.HTTP.Address); err == nil && host != "" {
		all = append(all, host)
	}
	return all
}

// token reads the bearer token in the file that the setting names. A bare name is that
// of a credential, if systemd handed over any.
func token(log *slog.Logger, setting, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	read := reference.ReadFile
	if !strings.ContainsRune(file, os.PathSeparator) && reference.HasCredentials() {
		read = reference.ReadCredential
	} else if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o007 != 0 {
		log.Warn("every user of this machine can read a token: chmod o= the file", "component", "api", "setting", setting, "file", file, "mode", info.Mode().Perm().String())
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
	t := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
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

// keyPair reads a certificate and its key, in regular files of sensible size.
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
