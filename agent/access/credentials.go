package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/api"
)

// Token reads the bearer token, or another secret, in the file that the setting names. A bare name is the name of a
// credential, if systemd passed any. Token logs a warning if every user of the machine can read the file.
func Token(log *slog.Logger, setting, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := readSecret(file)
	if err != nil {
		return "", err
	}
	return checked(log, secretFile{setting: setting, path: file}, text)
}

// isCredential reports whether file is the name of a credential.
func isCredential(file string) bool {
	return !strings.ContainsRune(file, os.PathSeparator) && reference.HasCredentials()
}

func readSecret(file string) (string, error) {
	read := reference.ReadFile
	if isCredential(file) {
		read = reference.ReadCredential
	}
	text, err := read(file)
	if err != nil {
		return "", fmt.Errorf("cannot read the token: %w", err)
	}
	return text, nil
}

func warnReadable(log *slog.Logger, setting, file string) {
	if info, err := os.Stat(file); !isCredential(file) && err == nil && info.Mode().Perm()&0o007 != 0 {
		log.Warn("every user of this machine can read a token: chmod o= the file", "component", "api", "setting",
			setting, "file", file, "mode", info.Mode().Perm().String())
	}
}

// token returns the token in the content of a file.
func token(setting, file, content string) (string, error) {
	content = strings.TrimSpace(content)
	switch {
	case content == "":
		return "", fmt.Errorf("cannot read the token in %s: %s is empty", setting, file)
	case strings.ContainsAny(content, "\r\n"):
		return "", fmt.Errorf("cannot read the token in %s: %s has several lines, and a token is one", setting, file)
	}
	return content, nil
}

// tokens follows the files with the tokens of the API.
func tokens(log *slog.Logger, c config.Auth) (*renewed[api.Tokens], error) {
	read := secretFile{"api.auth.read-token-file", c.ReadTokenFile, readSecret}
	admin := secretFile{"api.auth.admin-token-file", c.AdminTokenFile, readSecret}
	return renew(log, []secretFile{read, admin}, func(contents []string) (t api.Tokens, err error) {
		if t.Read, err = checked(log, read, contents[0]); err != nil {
			return t, err
		}
		if t.Admin, err = checked(log, admin, contents[1]); err != nil {
			return t, err
		}
		if t.Read != "" && t.Read == t.Admin {
			log.Warn("the read token equals the admin token, so readers may do everything", "component", "api")
		}
		return t, nil
	})
}

// checked returns the token in the content of a file, "" for a setting that is not set. It logs a warning if every user
// of the machine can read the file.
func checked(log *slog.Logger, f secretFile, content string) (string, error) {
	if f.path == "" {
		return "", nil
	}
	warnReadable(log, f.setting, f.path)
	return token(f.setting, f.path, content)
}

// encryption returns the TLS settings, nil for none. Connections that are opened after a file has changed use the new
// content.
func encryption(log *slog.Logger, c config.TLS) (*tls.Config, error) {
	if c == (config.TLS{}) {
		return nil, nil
	}
	if c.CertFile == "" || c.KeyFile == "" {
		return nil, errors.New("cannot encrypt the API: api.tls.cert-file and api.tls.key-file go together")
	}
	var inUse *tls.Config
	files, err := renew(log, []secretFile{{"api.tls.cert-file", c.CertFile, reference.ReadFile},
		{"api.tls.key-file", c.KeyFile, reference.ReadFile},
		{"api.tls.client-ca-file", c.ClientCAFile, reference.ReadFile}},
		func(contents []string) (*tls.Config, error) {
			t, err := tlsConfig(c, contents[0], contents[1], contents[2])
			if err != nil {
				return nil, err
			}
			keepValid(log.With("component", "api"), inUse, t, time.Now())
			inUse = t
			return t, nil
		})
	if err != nil {
		return nil, err
	}
	first := files.get().Clone()
	first.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return files.get(), nil }
	return first, nil
}

// keepValid keeps the certificate in use, if there is one, when the next one is out of date. It logs a warning if
// clients will refuse the next one.
func keepValid(log *slog.Logger, inUse, next *tls.Config, now time.Time) {
	leaf := next.Certificates[0].Leaf
	err := outOfDate(leaf, now)
	switch {
	case err != nil && inUse != nil && outOfDate(inUse.Certificates[0].Leaf, now) == nil:
		next.Certificates = inUse.Certificates
		log.Error("the former certificate of the API stays in use", "err", err)
		return
	case err != nil:
		log.Warn("clients refuse the certificate of the API", "err", err)
	}
	if inUse == nil {
		return
	}
	var lost []string
	for _, host := range validFor(inUse.Certificates[0].Leaf) {
		if leaf.VerifyHostname(host) != nil {
			lost = append(lost, host)
		}
	}
	if lost != nil {
		log.Warn("the new certificate of the API is not valid for all hosts of the former one", "hosts",
			strings.Join(lost, ", "), "valid_for", strings.Join(validFor(leaf), ", "))
	}
}

// outOfDate returns an error if a certificate of the API has expired, or is not valid yet.
func outOfDate(c *x509.Certificate, now time.Time) error {
	switch {
	case now.After(c.NotAfter):
		return fmt.Errorf("the certificate in api.tls.cert-file expired at %s", c.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(c.NotBefore):
		return fmt.Errorf("the certificate in api.tls.cert-file is not valid before %s: is the clock right?",
			c.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// validFor returns the names and addresses for which a certificate is valid.
func validFor(c *x509.Certificate) []string {
	all := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		all = append(all, ip.String())
	}
	return all
}

// tlsConfig returns the TLS configuration for a certificate, its key and the authorities of clients, "" for none.
func tlsConfig(c config.TLS, cert, key, clients string) (*tls.Config, error) {
	certificate, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		return nil, fmt.Errorf("cannot use the certificate in api.tls.cert-file with api.tls.key-file: %w", err)
	}
	t := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"}}
	if c.ClientCAFile == "" {
		return t, nil
	}
	t.ClientCAs, t.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !t.ClientCAs.AppendCertsFromPEM([]byte(clients)) {
		return nil, fmt.Errorf("cannot read api.tls.client-ca-file: there is no PEM certificate in %s", c.ClientCAFile)
	}
	return t, nil
}
