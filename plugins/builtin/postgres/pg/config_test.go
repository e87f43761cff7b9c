package pg_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// alone clears the PostgreSQL settings of the machine and returns the home directory.
func alone(t testing.TB) string {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "PG") {
			if t, ok := t.(*testing.T); ok {
				t.Setenv(name, "")
			}
		}
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	return home
}

var addresses = []string{
	"postgres://u:p@h:1/d", "postgresql://u@h/d", "postgres://h", "postgres://", "postgres:///d",
	"postgres://u:p%40%2F%23@h", "postgres://u:a:b@h",
	"postgres://u:p@a:1,b:2,c/d?target_session_attrs=read-write", "postgres://[::1]:5433/d",
	"postgres://[::1],[::2]:5/d", "postgres://u:p?q@h/d",
	"postgres://h/d?sslmode=disable&application_name=x%20y", "postgres://h/d?user=v&password=w&host=/tmp&port=7",
	"postgres://h/d%2Fe", "postgres://h?dbname=z&dbname=y",
	"postgres://h/?ssl=true", "postgres://%2Ftmp/d", "postgres://h/d?options=-c%20geqo%3Doff&search_path=a,b",
	"postgres://:p@h", "postgres://u:@h",
	"host=h port=1 dbname=d user=u password=p", "host = h\tport=1\nuser='a b\\'c\\\\' password=a\\ b", "  host=h  ",
	"user='' host=h", "password='' host=h", "host=a,b port=1,2", "",
	"host=h connect_timeout=3 require_auth=scram-sha-256 channel_binding=disable sslnegotiation=direct",
	"host=h password=a\\", "host=h password=p'q", "host=/var/run/postgresql",
}

// TestAddressesAreThoseOfPgx checks that an address that names no files means the same as to pgx.
func TestAddressesAreThoseOfPgx(t *testing.T) {
	alone(t)
	for _, address := range addresses {
		want, werr := pgconn.ParseConfig(address)
		got, err := pg.ParseConfig(t.Context(), address)
		if err != nil || werr != nil {
			t.Errorf("%q: %v, of pgx: %v", address, err, werr)
			continue
		}
		compare(t, address, got, want)
	}
}

func compare(t *testing.T, address string, got, want *pgconn.Config) {
	t.Helper()
	text := func(c *pgconn.Config) string {
		hosts := fmt.Sprint(c.Host, c.Port, c.TLSConfig != nil)
		for _, f := range c.Fallbacks {
			hosts += fmt.Sprint(" ", f.Host, f.Port, f.TLSConfig != nil)
		}
		return fmt.Sprintf("%s %q %q %q %v %q %q %q", hosts, c.Database, c.User, c.Password, c.ConnectTimeout,
			c.RequireAuth, c.ChannelBinding, c.SSLNegotiation)
	}
	if text(got) != text(want) || !maps.Equal(got.RuntimeParams, want.RuntimeParams) {
		t.Errorf("%q\nis      %s %v\nof pgx: %s %v", address, text(got), got.RuntimeParams, text(want),
			want.RuntimeParams)
	}
}

// FuzzAddress finds addresses that pgx reads differently. Refused addresses are not compared.
func FuzzAddress(f *testing.F) {
	alone(f)
	for _, a := range addresses {
		f.Add(a)
	}
	f.Fuzz(func(t *testing.T, address string) {
		if strings.Contains(address, "ssl") || strings.Contains(address, "file") ||
			strings.Contains(address, "service") || strings.Contains(address, "%") {
			return
		}
		got, err := pg.ParseConfig(t.Context(), address)
		want, werr := pgconn.ParseConfig(address)
		if err == nil && werr == nil && want.User != "" && !strings.ContainsAny(address, " \t\r\n\v\f") {
			compare(t, address, got, want)
		}
	})
}

func TestRefusedAddresses(t *testing.T) {
	alone(t)
	for address, want := range map[string]string{
		"postgres://u:hunter2@s3cret.x/y#z@127.0.0.1/d": "in a password too",
		"postgres://u:hunter2@s3cret@127.0.0.1/d":       "a password as",
		"postgres://u:hun/ter2@127.0.0.1/d":             "a password too",
		"postgres://u:hunter%2@h/d":                     "a password as",
		"postgres://h:0/d":                              "an invalid port",
		"postgres://a:1,b:2,c:3/d?port=1,2":             "2 ports for 3 hosts",
		"postgres://h/d?hunter2":                        "must be postgres:",
		"x:=1 host=h":                                   "that cannot be a PostgreSQL setting",
		"host=h HUNTER2=1":                              "that cannot be a PostgreSQL setting",
		"host=h password='hunter2":                      "must be postgres:",
		"host=h\x00password=hunter2":                    "must be postgres:",
		"host=h sslmode=hunter2":                        "sslmode is invalid",
		"host=h service=x":                              "service, which is not supported",
		"host=h servicefile=/x":                         "servicefile, which is not supported",
		"postgres://h/d?ssl=false":                      "use sslmode",
		"postgres://h/d?sslcert=/x":                     "set both or neither",
		"postgres://h/d?sslcrl=/x":                      "sslcrl, which is not supported",
	} {
		c, err := pg.ParseConfig(t.Context(), address)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v, %v, want an error with %q", address, c, err, want)
		}
	}
	t.Setenv("PGSERVICE", "x")
	if _, err := pg.ParseConfig(t.Context(), "host=h"); err == nil || !strings.Contains(err.Error(),
		"PGSERVICE in the environment") {
		t.Errorf("PGSERVICE in the environment: %v", err)
	}
}

// confinedTo returns a context in which settings may name files below dir.
func confinedTo(ctx context.Context, dir string) context.Context {
	return sdk.WithEnv(ctx, &sdk.Env{AllowPath: func(path string) error {
		real, err := filepath.EvalSymlinks(path)
		if rel, _ := filepath.Rel(dir, real); err == nil && filepath.IsLocal(rel) {
			return nil
		}
		return errors.New(path + " is not allowed")
	}})
}

// TestFilesOutsideAreNotRead checks that an address that names a file outside the allowed directory, in any spelling,
// is refused or that the file is not read.
func TestFilesOutsideAreNotRead(t *testing.T) {
	home := alone(t)
	allowed := t.TempDir()
	secret := filepath.Join(home, "pgpass")
	must(t, os.WriteFile(secret, []byte("*:*:*:*:outside\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(home, ".pgpass"), []byte("*:*:*:*:outside\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(allowed, "svc"), []byte("[x]\npassfile="+secret+"\n"), 0o600))
	must(t, os.Symlink(secret, filepath.Join(allowed, "link")))
	up := strings.Repeat("/..", strings.Count(allowed, "/"))
	ctx := confinedTo(t.Context(), allowed)
	pairs := []string{
		"passfile=" + secret, "passfile\v= " + secret, "passfile\f=\f'" + secret + "'", "x:=1 passfile=" + secret,
		"passfile=" + allowed + "/link", "passfile=x passfile=" + secret,
		"passfile=" + allowed + strings.ReplaceAll(up, "/", `/\`) + secret, "passfile='" +
			allowed + strings.ReplaceAll(up, "/", `/\`) + secret + "'", "passfile='" + allowed + up + secret + "'",
		"service=x servicefile=" + allowed + "/svc", "servicefile=" + secret, "passfile=\\" + secret,
		"sslpassword=x passfile = '" + secret + "' ", "dbname='x' passfile='" + secret + "'",
	}
	for _, name := range []string{"sslrootcert", "sslcert", "sslkey"} {
		pairs = append(pairs, name+"="+secret, name+"\v='"+secret+"'", name+"="+allowed+"/link")
	}
	var all []string
	for _, p := range pairs {
		all = append(all, "host=127.0.0.1 "+p, "host=127.0.0.1 sslmode=disable "+p, p+" host=127.0.0.1",
			"host=127.0.0.1 sslkey="+allowed+"/k sslcert="+allowed+"/c "+p)
	}
	for _, query := range []string{"passfile=" + secret, "pass%66ile=" + secret,
		"passfile=" + strings.ReplaceAll(secret, "/", "%2F"), "passfile=&passfile=" + secret, "sslrootcert=" + secret,
		"%73slrootcert=" + secret, "sslcert=" + secret + "&sslkey=" + secret, "service=x&servicefile=" + allowed +
			"/svc", "sslmode=disable&sslrootcert=" + secret} {
		all = append(all, "postgres://u@127.0.0.1/d?"+query, "postgresql://127.0.0.1?"+query)
	}
	for _, address := range all {
		err := pg.CheckURL(ctx, address)
		var setting sdk.SettingError
		if !errors.As(err, &setting) || setting.Setting != "url" || strings.Contains(err.Error(), "outside") {
			t.Errorf("%q: %v", address, err)
		}
		if conn, err := pg.Connect(ctx, address, nil); err == nil {
			t.Errorf("%q connects to %v", address, conn)
		}
	}
	// Files of the environment that may not be read are refused as well; files in the home directory are ignored.
	if c, err := pg.ParseConfig(ctx, "host=h"); err != nil || c.Password != "" {
		t.Errorf("the password is %q, error %v", c.Password, err)
	}
	for _, name := range []string{"PGPASSFILE", "PGSSLROOTCERT", "PGSSLCERT"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, secret)
			if name == "PGSSLCERT" {
				t.Setenv("PGSSLKEY", secret)
			}
			if err := pg.CheckURL(ctx, "host=h"); err == nil || !strings.Contains(err.Error(), "not allowed") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestOddFiles checks that devices, FIFOs, directories and large files are refused at once, from whichever parameter.
func TestOddFiles(t *testing.T) {
	home := alone(t)
	fifo, large := filepath.Join(home, "fifo"), filepath.Join(home, "large")
	must(t, syscall.Mkfifo(fifo, 0o600))
	must(t, os.WriteFile(large, make([]byte, 2<<20), 0o600))
	must(t, syscall.Mkfifo(filepath.Join(home, ".pgpass"), 0o600))
	for _, path := range []string{"/dev/zero", "/dev/null", fifo, large, home, filepath.Join(home, "missing")} {
		for _, p := range []string{"passfile=" + path, "sslrootcert=" + path, "sslcert=" + path + " sslkey=/dev/zero"} {
			if err := pg.CheckURL(t.Context(), "host=h "+p); err == nil || !strings.Contains(err.Error(),
				"cannot read "+strings.Fields(strings.ReplaceAll(p, "=", " "))[0]) {
				t.Errorf("%s: %v", p, err)
			}
		}
	}
	if _, err := pg.ParseConfig(t.Context(), "host=h"); err != nil {
		t.Errorf("with a FIFO in the place of .pgpass: %v", err)
	}
}

func TestPasswordFile(t *testing.T) {
	home := alone(t)
	path := filepath.Join(home, ".pgpass")
	must(t, os.WriteFile(path, []byte("# h:*:*:*:no\nh:1:d:u:wrong "+
		"port\nshort:line\nh:5432:d:u:a\\:b\\\\c:d\r\nlocalhost:*:*:*:socket\n*:*:d\\:e:*:other"), 0o600))
	for address, want := range map[string]string{
		"host=h dbname=d user=u": `a:b\c:d`, "host=/tmp user=u": "socket", "host=x dbname=d:e user=u": "other",
		"host=x user=u": "", "host=h dbname=d user=u password=own": "own",
		"host=h dbname=d user=u passfile=": "", "host=h dbname=d user=u passfile=" + path: `a:b\c:d`,
	} {
		if c, err := pg.ParseConfig(t.Context(), address); err != nil || c.Password != want {
			t.Errorf("%q: password %q, error %v, want %q", address, c.Password, err, want)
		}
	}
}

// issue returns a certificate and its key as PEM, signed by a parent or by itself.
func issue(t *testing.T, name string, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate,
	*ecdsa.PrivateKey, []byte, []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name},
		NotAfter: time.Now().Add(time.Hour), IsCA: parent == nil, BasicConstraintsValid: true}
	if parent == nil {
		parent, by = template, k
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &k.PublicKey, by)
	must(t, err)
	c, err := x509.ParseCertificate(der)
	must(t, err)
	b, err := x509.MarshalECPrivateKey(k)
	must(t, err)
	return c, k, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: b})
}

// TestCertificates checks that certificates of files have the same effect as in libpq: require with a root certificate
// checks the issuer of the server's certificate, and verify-full its name.
func TestCertificates(t *testing.T) {
	home := alone(t)
	ca, caKey, caText, _ := issue(t, "ca", nil, nil)
	_, _, otherText, _ := issue(t, "other", nil, nil)
	_, _, certText, keyText := issue(t, "db.test", ca, caKey)
	file := func(name string, content []byte) string {
		path := filepath.Join(home, name)
		must(t, os.WriteFile(path, content, 0o600))
		return path
	}
	block, _ := pem.Decode(keyText)
	//nolint:staticcheck // libpq takes such keys
	sealed, err := x509.EncryptPEMBlock(rand.Reader, block.Type, block.Bytes, []byte("pw"), x509.PEMCipherAES256)
	must(t, err)
	root, other, own, ownKey, ownSealed := file("ca", caText), file("other", otherText), file("cert", certText),
		file("key", keyText), file("sealed", pem.EncodeToMemory(sealed))
	server, err := tls.X509KeyPair(certText, keyText)
	must(t, err)
	for address, want := range map[string]string{
		"host=db.test sslmode=require":                                                  "ok",
		"host=elsewhere sslmode=require":                                                "ok",
		"host=elsewhere sslmode=prefer sslrootcert=" + other:                            "ok",
		"host=elsewhere sslmode=require sslrootcert=" + root:                            "ok",
		"host=db.test sslmode=require sslrootcert=" + other:                             "unknown authority",
		"host=elsewhere sslmode=verify-ca sslrootcert=" + root:                          "ok",
		"host=db.test sslmode=verify-ca sslrootcert=" + other:                           "unknown authority",
		"host=db.test sslmode=verify-full sslrootcert=" + root:                          "ok",
		"host=elsewhere sslmode=verify-full sslrootcert=" + root:                        "not elsewhere",
		"host=db.test sslmode=verify-full sslrootcert=" + other:                         "unknown authority",
		"host=db.test sslmode=verify-full":                                              "unknown authority",
		"host=db.test sslmode=verify-full sslrootcert=system":                           "unknown authority",
		"host=db.test sslnegotiation=direct sslrootcert=" + other:                       "unknown authority",
		"host=h sslmode=require sslcert=" + own + " sslkey=" + ownKey:                   "ok",
		"host=h sslmode=require sslpassword=pw sslcert=" + own + " sslkey=" + ownSealed: "ok",
	} {
		c, err := pg.ParseConfig(t.Context(), address)
		if err != nil {
			t.Errorf("%q: %v", address, err)
			continue
		}
		if got := fmt.Sprint(handshake(c.TLSConfig, server)); !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", address, got, want)
		}
		if n := len(c.TLSConfig.Certificates); (n == 1) != strings.Contains(address, "sslcert") {
			t.Errorf("%q has %d certificates", address, n)
		}
	}
	if _, err := pg.ParseConfig(t.Context(), "host=h sslpassword=no sslcert="+own+" sslkey="+ownSealed); err == nil ||
		!strings.Contains(err.Error(), "cannot decrypt sslkey") {
		t.Errorf("wrong sslpassword: %v", err)
	}
}

// handshake returns "ok", or the reason for which a client refuses a server.
func handshake(client *tls.Config, certificate tls.Certificate) any {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	go func() {
		_ = tls.Server(b, &tls.Config{Certificates: []tls.Certificate{certificate},
			NextProtos: []string{"postgresql"}}).Handshake()
	}()
	if err := tls.Client(a, client).Handshake(); err != nil {
		return err
	}
	return "ok"
}
