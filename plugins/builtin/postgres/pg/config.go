package pg

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// CheckURL returns a SettingError of url unless a session can be configured from address.
func CheckURL(ctx context.Context, address string) error {
	_, err := ParseConfig(ctx, address)
	var wrong sdk.SettingError
	if err == nil || errors.As(err, &wrong) {
		return err
	}
	return sdk.SettingError{Setting: "url", Message: err.Error()}
}

// ParseConfig returns the configuration for address. The environment supplies missing values. ParseConfig reads the
// named files itself: they must be regular, of bounded size, and allowed by the sdk.Env of ctx. Its error does not
// contain the password.
func ParseConfig(ctx context.Context, address string) (*pgconn.Config, error) {
	p, err := parameters(address)
	if err != nil {
		return nil, err
	}
	if os.Getenv("PGSERVICE") != "" {
		return nil, errors.New("cannot be used with PGSERVICE in the environment of the agent: unset PGSERVICE, and " +
			"write the parameters of the service into the URL")
	}
	// The mode is determined before pgx parses the configuration, because it depends on certificates that pgx does not
	// see.
	mode := cmp.Or(parameterOrEnv(p, "sslmode", "PGSSLMODE"), "prefer")
	if mode == "prefer" && parameterOrEnv(p, "sslnegotiation", "PGSSLNEGOTIATION") == "direct" {
		mode = "require"
	}
	files := files{ctx, p}
	for _, name := range fileNames { // before reading any file
		if path := files.named(name); path != systemRoots || name != rootCert {
			if err := sdk.CheckPath(ctx, "url", path); err != nil {
				return nil, err
			}
		}
	}
	roots, err := files.roots(mode)
	if err != nil {
		return nil, err
	}
	if roots != nil && mode == "require" {
		mode = "verify-ca" // like libpq
	}
	own, err := files.certificates(mode)
	if err != nil {
		return nil, err
	}
	c, err := configure(p, mode)
	if err != nil {
		return nil, err
	}
	if err := checkSockets(ctx, c); err != nil {
		return nil, err
	}
	for i := -1; i < len(c.Fallbacks); i++ {
		t := c.TLSConfig
		if i >= 0 {
			t = c.Fallbacks[i].TLSConfig
		}
		if t == nil {
			continue
		}
		if roots != nil {
			t.RootCAs = roots
		}
		t.Certificates = own
	}
	if c.Password == "" {
		c.Password, err = files.password(c)
	}
	return c, err
}

// checkSockets returns an error if c uses a Unix socket that settings may not name. A host that begins with / is the
// directory of a socket; without a host, pgx uses the socket of this machine, if it exists.
func checkSockets(ctx context.Context, c *pgconn.Config) error {
	for i := -1; i < len(c.Fallbacks); i++ {
		host, port := c.Host, c.Port
		if i >= 0 {
			host, port = c.Fallbacks[i].Host, c.Fallbacks[i].Port
		}
		network, address := pgconn.NetworkAddress(host, port)
		if err := checkSocket(ctx, network, address); err != nil {
			return err
		}
	}
	return nil
}

func checkSocket(ctx context.Context, network, address string) error {
	if network != "unix" {
		return nil
	}
	err := sdk.CheckPath(ctx, "url", address)
	var refused sdk.SettingError
	if errors.As(err, &refused) {
		refused.Message = "leads to a Unix socket: " + refused.Message + ": add it there, or set a host such as " +
			"localhost in the URL"
		return refused
	}
	return err
}

// parameterOrEnv returns a parameter, or its environment variable if the parameter is missing.
func parameterOrEnv(p map[string]string, name, variable string) string {
	if value, ok := p[name]; ok {
		return value
	}
	return os.Getenv(variable)
}

var escape = strings.NewReplacer(`\`, `\\`, `'`, `\'`)

// configure returns a configuration without files. It passes pgx explicit parameters and empty file names, so that pgx
// takes nothing from the environment or the home directory.
func configure(p map[string]string, mode string) (*pgconn.Config, error) {
	own := map[string]string{rootCert: "", cert: "", key: "", passFile: "", "servicefile": "", "sslmode": mode}
	if parameterOrEnv(p, rootCert, "PGSSLROOTCERT") == systemRoots {
		own[rootCert] = systemRoots
	}
	session := map[string]string{}
	for name, value := range p {
		switch {
		case isSession(name):
			session[name] = value
		case own[name] == "" && slices.Contains(connecting, name):
			own[name] = value
		}
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(own)) {
		fmt.Fprintf(&text, "%s='%s' ", name, escape.Replace(own[name]))
	}
	c, err := pgconn.ParseConfigWithOptions(text.String(),
		pgconn.ParseConfigOptions{ConnStringAllowedKeys: slices.Collect(maps.Keys(own))})
	var parse *pgconn.ParseConfigError
	switch {
	case err == nil:
		maps.Copy(c.RuntimeParams, session)
		return c, nil
	case errors.As(err, &parse) && parse.Unwrap() != nil:
		return nil, fmt.Errorf("cannot be read: %w", parse.Unwrap())
	}
	return nil, errors.New("has a parameter with an invalid value")
}

// systemRoots stands for the certificates of the machine in place of a file.
const systemRoots = "system"

// maxFile bounds the size of a named file.
const maxFile = 1 << 20

// files reads the files that parameters name.
type files struct {
	ctx context.Context
	p   map[string]string
}

// named returns the path in a parameter or its environment variable, or "".
func (f *files) named(name string) string {
	return parameterOrEnv(f.p, name, "PG"+strings.ToUpper(name))
}

// usual returns the default path below the home directory, or "" if there is no file.
func (f *files) usual(name, path string) string {
	home, err := os.UserHomeDir()
	if _, given := f.p[name]; given || err != nil {
		return ""
	}
	path = filepath.Join(home, path)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// read returns the content of a file.
func (f *files) read(name, path string) ([]byte, error) {
	b, err := sdk.ReadSettingFile(f.ctx, "url", path, maxFile)
	var refused sdk.SettingError
	if err != nil && !errors.As(err, &refused) {
		err = fmt.Errorf("cannot read %s: %w", name, err)
	}
	return b, err
}

// roots returns the certificate authorities for checking the certificate of the server, or nil if pgx uses those of the
// machine or no file is named.
func (f *files) roots(mode string) (*x509.CertPool, error) {
	path := f.named(rootCert)
	if path == "" && (mode == "require" || strings.HasPrefix(mode, "verify-")) {
		path = f.usual(rootCert, ".postgresql/root.crt")
	}
	if path == "" || path == systemRoots {
		return nil, nil
	}
	b, err := f.read(rootCert, path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("cannot use %s: it contains no certificate", rootCert)
	}
	return pool, nil
}

// certificates returns the certificate of the client, or none if no file is named.
func (f *files) certificates(mode string) ([]tls.Certificate, error) {
	certPath, keyPath := f.named(cert), f.named(key)
	if certPath == "" && keyPath == "" && mode != "disable" {
		certPath, keyPath = f.usual(cert, ".postgresql/postgresql.crt"), f.usual(key, ".postgresql/postgresql.key")
		if certPath == "" || keyPath == "" || sdk.CheckPath(f.ctx, "url", certPath) != nil ||
			sdk.CheckPath(f.ctx, "url", keyPath) != nil {
			return nil, nil // the server rejects the login if it requires one
		}
	}
	if certPath == "" && keyPath == "" {
		return nil, nil
	}
	if certPath == "" || keyPath == "" {
		return nil, fmt.Errorf("has only one of %s and %s: set both or neither", cert, key)
	}
	certText, err := f.read(cert, certPath)
	if err != nil {
		return nil, err
	}
	keyText, err := f.read(key, keyPath)
	if err == nil {
		keyText, err = decrypted(keyText, parameterOrEnv(f.p, "sslpassword", "PGSSLPASSWORD"))
	}
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certText, keyText)
	if err != nil {
		return nil, fmt.Errorf("cannot use %s with %s: %w", cert, key, err)
	}
	return []tls.Certificate{pair}, nil
}

// decrypted returns a private key as unencrypted PEM text. It supports the encryption that libpq supports: RFC 1423.
func decrypted(text []byte, password string) ([]byte, error) {
	block, _ := pem.Decode(text)
	if block == nil || !x509.IsEncryptedPEMBlock(block) { //nolint:staticcheck // what libpq takes
		return text, nil
	}
	plain, err := x509.DecryptPEMBlock(block, []byte(password)) //nolint:staticcheck // what libpq takes
	if err != nil {
		return nil, fmt.Errorf("cannot decrypt %s with sslpassword: %w", key, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: plain}), nil
}

// password returns the password for the first host from the password file, or "" if there is none.
func (f *files) password(c *pgconn.Config) (string, error) {
	path := f.named(passFile)
	usual := path == ""
	if usual {
		path = f.usual(passFile, ".pgpass")
	}
	if path == "" {
		return "", nil
	}
	b, err := f.read(passFile, path)
	if err != nil && usual {
		return "", nil // the file is the default, not configured
	}
	if err != nil {
		return "", err
	}
	host := c.Host
	if strings.HasPrefix(host, "/") {
		host = "localhost"
	}
	return findPassword(b, host, strconv.Itoa(int(c.Port)), c.Database, c.User), nil
}

// findPassword returns the password of the first matching line host:port:database:user:password of a password file. *
// matches everything, and a backslash escapes the next character.
func findPassword(content []byte, want ...string) string {
lines:
	for line := range bytes.Lines(content) {
		fields := []string{""}
		text := strings.TrimRight(string(line), "\r\n")
		for i := 0; i < len(text); i++ {
			switch {
			case text[i] == '\\' && i+1 < len(text):
				i++
				fields[len(fields)-1] += text[i : i+1]
			case text[i] == ':' && len(fields) <= len(want):
				fields = append(fields, "")
			default:
				fields[len(fields)-1] += text[i : i+1]
			}
		}
		if strings.HasPrefix(text, "#") || len(fields) <= len(want) {
			continue
		}
		for i, w := range want {
			if fields[i] != "*" && fields[i] != w {
				continue lines
			}
		}
		return fields[len(want)]
	}
	return ""
}

// withoutURL removes the URL from the text of an error.
func withoutURL(err error, url string) error {
	if text := err.Error(); strings.Contains(text, url) {
		return errors.New(strings.ReplaceAll(text, url, "the URL"))
	}
	return err
}
