package mysql_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // the protocol has it
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql/binlog"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

const password = "secret word"

var scramble = []byte("abcdefghijklmnopqrst")

// fake is the server's side of a connection.
type fake struct {
	net.Conn
	seq byte
}

func (f *fake) send(payload []byte) {
	_, _ = f.Write(append([]byte{byte(len(payload)), byte(len(payload) >> 8), byte(len(payload) >> 16), f.seq},
		payload...))
	f.seq++
}

func (f *fake) receive() []byte {
	head := make([]byte, 4)
	if _, err := io.ReadFull(f, head); err != nil {
		return nil
	}
	b := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
	_, _ = io.ReadFull(f, b)
	f.seq = head[3] + 1
	return b
}

// greet sends the greeting of MySQL 8 and returns the answer of the client, through TLS if pair is given.
func (f *fake) greet(plugin string, pair *tls.Certificate) []byte {
	b := append([]byte{10}, "8.4.0\x00"...)
	b = append(binary.LittleEndian.AppendUint32(b, 42), scramble[:8]...)
	b = append(b, 0, 0xff, 0xff, 45, 2, 0, 0xff, 0xff, 21)
	b = append(append(append(b, make([]byte, 10)...), scramble[8:]...), 0)
	f.send(append(append(b, plugin...), 0))
	answer := f.receive()
	if pair == nil || len(answer) != 32 {
		return answer
	}
	f.Conn = tls.Server(f.Conn, &tls.Config{Certificates: []tls.Certificate{*pair}})
	return f.receive()
}

// proofOf returns the proof of the password in a client's answer: its length follows the user name.
func proofOf(answer []byte) []byte {
	_, rest, _ := bytes.Cut(answer[32:], []byte{0})
	return rest[1 : 1+rest[0]]
}

// knows reports whether a proof is valid, from the hash that the server keeps: SHA256(SHA256(password)).
func knows(proof []byte) bool {
	once := sha256.Sum256([]byte(password))
	kept := sha256.Sum256(once[:])
	mix := sha256.Sum256(append(kept[:], scramble...))
	for i := range mix {
		mix[i] ^= proof[i]
	}
	return sha256.Sum256(mix[:]) == kept
}

// serve answers one client.
func serve(t *testing.T, do func(f *fake) error) (addr string, result <-chan error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	done := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		defer func() { _ = conn.Close() }()
		done <- do(&fake{Conn: conn})
	}()
	return l.Addr().String(), done
}

func okay(f *fake) { f.send([]byte{0, 0, 0, 2, 0, 0, 0}) }

// asksForAll requests the full password from the client, as a server without a cached hash does, through TLS if pair is
// given.
func asksForAll(f *fake, pair *tls.Certificate) error {
	if !knows(proofOf(f.greet("caching_sha2_password", pair))) {
		return errors.New("the proof is wrong")
	}
	f.send([]byte{1, 4})
	return nil
}

func known(f *fake) error {
	if !knows(proofOf(f.greet("caching_sha2_password", nil))) {
		return errors.New("the proof is wrong")
	}
	f.send([]byte{1, 3})
	return nil
}

func switched(f *fake) error {
	f.greet("sha256_password", nil)
	f.send(append(append([]byte{0xfe}, "caching_sha2_password\x00"...), append(scramble, 0)...))
	if !knows(f.receive()) {
		return errors.New("the proof is wrong")
	}
	f.send([]byte{1, 3})
	return nil
}

// encrypted makes the client encrypt the password with key.
func encrypted(f *fake, key *rsa.PrivateKey) error {
	if err := asksForAll(f, nil); err != nil {
		return err
	}
	if ask := f.receive(); !bytes.Equal(ask, []byte{2}) {
		return fmt.Errorf("the client asks %v for the key", ask)
	}
	return decrypts(f, key)
}

// decrypts sends a key and expects the password encrypted with it.
func decrypts(f *fake, key *rsa.PrivateKey) error {
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	f.send(append([]byte{1}, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})...))
	plain, err := rsa.DecryptOAEP(sha1.New(), nil, key, f.receive(), nil) //nolint:gosec // as above
	for i := range plain {
		plain[i] ^= scramble[i%len(scramble)]
	}
	if err == nil && string(plain) != password+"\x00" {
		err = fmt.Errorf("the password is %q", plain)
	}
	return err
}

// TestCachingSHA2 logs in with MySQL 8's caching_sha2_password: with a proof if the server has cached the password,
// otherwise with the full password, encrypted or through TLS.
func TestCachingSHA2(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	certified := httptest.NewTLSServer(nil)
	t.Cleanup(certified.Close)
	pair, roots := certified.TLS.Certificates[0], x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	secured := func(f *fake) error {
		if err := asksForAll(f, &pair); err != nil {
			return err
		}
		if got := f.receive(); string(got) != password+"\x00" {
			return fmt.Errorf("the password is %q", got)
		}
		return nil
	}
	for name, c := range map[string]struct {
		tls   *tls.Config
		serve func(f *fake) error
	}{
		"known": {nil, known}, "switched": {nil, switched},
		"RSA": {nil, func(f *fake) error { return encrypted(f, key) }},
		"TLS": {&tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}, secured},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, result := serve(t, func(f *fake) error {
				if err := c.serve(f); err != nil {
					return err
				}
				okay(f)
				return nil
			})
			conn, err := binlog.Connect(t.Context(),
				&binlog.Config{Addr: addr, User: "u", Password: password, TLS: c.tls, Timeout: 5 * time.Second})
			if failed := <-result; failed != nil || err != nil {
				t.Fatal(failed, err)
			}
			conn.Close()
		})
	}
}

// TestEd25519 logs in with MariaDB's ed25519. A password of 32 bytes replaces the seed, so that the standard library
// can verify the signature.
func TestEd25519(t *testing.T) {
	t.Parallel()
	const seed = "a password of exactly 32 bytes.."
	signed := make(chan []byte, 1)
	addr, result := serve(t, func(f *fake) error {
		f.greet("mysql_native_password", nil)
		f.send(append(append([]byte{0xfe}, "client_ed25519\x00"...), append(scramble, 0)...))
		signed <- f.receive()
		okay(f)
		return nil
	})
	conn, err := binlog.Connect(t.Context(),
		&binlog.Config{Addr: addr, User: "u", Password: seed, Timeout: 5 * time.Second})
	if failed := <-result; failed != nil || err != nil {
		t.Fatal(failed, err)
	}
	conn.Close()
	public, _ := ed25519.NewKeyFromSeed([]byte(seed)).Public().(ed25519.PublicKey)
	if !ed25519.Verify(public, scramble, <-signed) {
		t.Error("the signature is wrong")
	}
}

// TestSHA256 logs in with sha256_password: the server sends its key and receives the password encrypted with it.
func TestSHA256(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	addr, result := serve(t, func(f *fake) error {
		f.greet("mysql_native_password", nil)
		f.send(append(append([]byte{0xfe}, "sha256_password\x00"...), append(scramble, 0)...))
		if ask := f.receive(); !bytes.Equal(ask, []byte{1}) {
			return fmt.Errorf("the client asks %v for the key", ask)
		}
		if err := decrypts(f, key); err != nil {
			return err
		}
		okay(f)
		return nil
	})
	conn, err := binlog.Connect(t.Context(),
		&binlog.Config{Addr: addr, User: "u", Password: password, Timeout: 5 * time.Second})
	if failed := <-result; failed != nil || err != nil {
		t.Fatal(failed, err)
	}
	conn.Close()
}

// TestRefusals connects to servers that reject the login.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for words, c := range map[string]struct {
		tls   *tls.Config
		serve func(f *fake)
	}{
		"Error 1045 (28000): Access denied": {nil, func(f *fake) {
			f.greet("mysql_native_password", nil)
			f.send(append([]byte{0xff, 0x15, 0x04}, "#28000Access denied"...))
		}},
		"authentication with dialog": {nil, func(f *fake) {
			f.greet("dialog", nil)
			f.send([]byte("\xfedialog\x00abc\x00"))
		}},
		"clear text, which needs TLS": {nil, func(f *fake) {
			f.greet("dialog", nil)
			f.send([]byte("\xfemysql_clear_password\x00"))
		}},
		"not of the MySQL protocol": {nil, func(f *fake) { f.send([]byte("HTTP")) }},
		"EOF":                       {nil, func(*fake) {}},
		"server does not offer TLS": {&tls.Config{}, func(f *fake) {
			f.send(append([]byte("\x0a5.7\x00\x00\x00\x00\x00"), make([]byte, 45)...))
		}},
		"Error 1129 (HY000): is blocked": {nil, func(f *fake) {
			f.send(append([]byte{0xff, 0x69, 0x04}, "is blocked"...))
		}},
	} {
		addr, result := serve(t, func(f *fake) error { c.serve(f); return nil })
		_, err := binlog.Connect(t.Context(), &binlog.Config{Addr: addr, User: "u", Password: password, TLS: c.tls,
			Timeout: 5 * time.Second})
		<-result
		if err == nil || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), password) {
			t.Errorf("got %v, want %s", err, words)
		}
	}
}

// TestEvents receives events (the large one in several packets), then silence, then the end.
func TestEvents(t *testing.T) {
	t.Parallel()
	const large = 1<<24 + 10
	addr, _ := serve(t, func(f *fake) error {
		f.greet("mysql_native_password", nil)
		okay(f)
		if got := f.receive(); len(got) < 10 || got[0] != 0x1e {
			return fmt.Errorf("the client sends %x", got)
		}
		f.send([]byte{0, 'a', 'b'})
		f.send(make([]byte, 1<<24-1))
		f.send(make([]byte, large-1<<24+2))
		f.receive() // until the client gives up on the silence
		return nil
	})
	conn, err := binlog.Connect(t.Context(), &binlog.Config{Addr: addr, User: "u", Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.DumpGTID(7, []byte{1, 2}); err != nil {
		t.Fatal(err)
	}
	if b, err := conn.Event(wait.Limit); err != nil || string(b) != "ab" {
		t.Fatalf("got %q, %v", b, err)
	}
	if b, err := conn.Event(wait.Limit); err != nil || len(b) != large {
		t.Fatalf("got %d bytes, %v", len(b), err)
	}
	var timeout net.Error
	if _, err := conn.Event(50 * time.Millisecond); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatalf("after silence: %v", err)
	}
}
