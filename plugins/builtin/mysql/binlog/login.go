package binlog

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // mysql_native_password uses it
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"

	"filippo.io/edwards25519"
)

// greeting is the first message of the server.
type greeting struct {
	capabilities uint32
	scramble     []byte
	plugin       string
}

func parseGreeting(b []byte) (g greeting, err error) {
	if b[0] != 10 {
		return g, ErrProtocol
	}
	end := bytes.IndexByte(b, 0)
	if end < 0 || len(b) < end+1+4+8+1+2 {
		return g, ErrProtocol
	}
	b = b[end+1+4:]
	g.scramble = bytes.Clone(b[:8])
	g.capabilities = uint32(binary.LittleEndian.Uint16(b[9:]))
	if b = b[11:]; len(b) < 16 {
		return g, ErrProtocol
	}
	g.capabilities |= uint32(binary.LittleEndian.Uint16(b[3:])) << 16
	rest := b[16:]
	n := min(max(13, int(b[5])-8), len(rest))
	g.scramble = append(g.scramble, bytes.TrimSuffix(rest[:n], []byte{0})...)
	plugin, _, _ := bytes.Cut(rest[n:], []byte{0})
	g.plugin = string(plugin)
	return g, nil
}

// login answers the greeting, after starting TLS if configured.
func (c *Conn) login(ctx context.Context, config *Config, flags uint32) error {
	b, err := c.answer()
	if err != nil {
		return err
	}
	g, err := parseGreeting(b)
	if err != nil {
		return err
	}
	if config.Database != "" {
		flags |= capDatabase
	}
	if config.TLS != nil {
		if g.capabilities&capTLS == 0 {
			return errors.New("the server does not offer TLS")
		}
		flags |= capTLS
	}
	c.granted = flags&g.capabilities | capProtocol41
	head := binary.LittleEndian.AppendUint32(nil, c.granted)
	head = binary.LittleEndian.AppendUint32(head, maxPacket)
	head = append(append(head, utf8mb4), make([]byte, 23)...)
	if config.TLS != nil {
		if err := c.startTLS(ctx, head, config.TLS); err != nil {
			return err
		}
	}
	plugin := g.plugin
	if plugin != pluginNative && plugin != pluginCachingSHA2 { // the server then requests another plugin
		plugin = pluginNative
	}
	proof, err := c.proof(plugin, config.Password, g.scramble)
	if err != nil {
		return err
	}
	b = append(append(head, config.User...), 0)
	b = append(append(b, byte(len(proof))), proof...)
	if c.granted&capDatabase != 0 {
		b = append(append(b, config.Database...), 0)
	}
	if err := c.write(append(append(b, plugin...), 0)); err != nil {
		return err
	}
	return c.authenticate(config.Password, plugin, g.scramble)
}

func (c *Conn) startTLS(ctx context.Context, head []byte, config *tls.Config) error {
	if err := c.write(head); err != nil {
		return err
	}
	if c.in.Buffered() > 0 { // data received before TLS is not authenticated
		return ErrProtocol
	}
	secured := tls.Client(c.net, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("cannot begin TLS: %w", err)
	}
	c.net, c.secure = secured, true
	c.in.Reset(secured)
	return nil
}

// Authentication plugins.
const (
	pluginNative      = "mysql_native_password"
	pluginCachingSHA2 = "caching_sha2_password"
	pluginClear       = "mysql_clear_password"
	pluginSHA256      = "sha256_password"
	pluginEd25519     = "client_ed25519"
)

// proof returns the proof of the password for a plugin.
func (c *Conn) proof(plugin, password string, scramble []byte) ([]byte, error) {
	switch plugin {
	case pluginNative:
		return nativeProof(password, scramble), nil
	case pluginCachingSHA2:
		return sha2Proof(password, scramble), nil
	case pluginClear:
		if !c.secure {
			return nil, errors.New("the server requests the password in clear text, which needs TLS: " +
				"set tls.enabled to true")
		}
		return append([]byte(password), 0), nil
	case pluginSHA256:
		if password == "" || c.secure {
			return append([]byte(password), 0), nil
		}
		return []byte{askKeySHA256}, nil
	case pluginEd25519:
		return ed25519Proof(password, scramble)
	}
	return nil, fmt.Errorf("the server requests authentication with %.64s, which is not supported: use "+
		"mysql_native_password or caching_sha2_password for the user", plugin)
}

// nativeProof returns SHA1(password) XOR SHA1(scramble, SHA1(SHA1(password))).
func nativeProof(password string, scramble []byte) []byte {
	if password == "" {
		return nil
	}
	once := sha1.Sum([]byte(password))                                                   //nolint:gosec // as above
	twice := sha1.Sum(once[:])                                                           //nolint:gosec // as above
	mix := sha1.Sum(append(bytes.Clone(scramble[:min(20, len(scramble))]), twice[:]...)) //nolint:gosec // as above
	for i := range mix {
		mix[i] ^= once[i]
	}
	return mix[:]
}

// sha2Proof returns SHA256(password) XOR SHA256(SHA256(SHA256(password)), scramble).
func sha2Proof(password string, scramble []byte) []byte {
	if password == "" {
		return nil
	}
	once := sha256.Sum256([]byte(password))
	twice := sha256.Sum256(once[:])
	mix := sha256.Sum256(append(twice[:], scramble[:min(20, len(scramble))]...))
	for i := range mix {
		mix[i] ^= once[i]
	}
	return mix[:]
}

// authenticate answers the server until it accepts or rejects the login.
func (c *Conn) authenticate(password, plugin string, scramble []byte) error {
	for range 8 {
		b, err := c.answer()
		if err != nil {
			return err
		}
		switch b[0] {
		case 0x00:
			return nil
		case 0xfe: // switch to another plugin
			name, rest, ok := bytes.Cut(b[1:], []byte{0})
			if !ok {
				return errors.New("the server requests authentication of a version before MySQL 4.1, " +
					"which is not supported")
			}
			plugin, scramble = string(name), bytes.Clone(bytes.TrimSuffix(rest, []byte{0}))
			proof, err := c.proof(plugin, password, scramble)
			if err != nil {
				return err
			}
			if err := c.write(proof); err != nil {
				return err
			}
		case 0x01: // more data
			if len(b) < 2 {
				return ErrProtocol
			}
			if err := c.more(b[1:], plugin, password, scramble); err != nil {
				return err
			}
		default:
			return ErrProtocol
		}
	}
	return ErrProtocol
}

const (
	fastSuccess  = 3
	fullRequired = 4
	askPublicKey = 2
	askKeySHA256 = 1 // for sha256_password
)

// more answers a further message of a plugin. With caching_sha2_password the server has the password cached, or
// requests the full password, in clear text through TLS, otherwise encrypted with its public key. With sha256_password
// it sends the key at once.
func (c *Conn) more(b []byte, plugin, password string, scramble []byte) error {
	switch {
	case plugin != pluginCachingSHA2 && (plugin != pluginSHA256 || c.secure):
		return ErrProtocol
	case plugin == pluginSHA256:
	case len(b) == 1 && b[0] == fastSuccess:
		return nil
	case len(b) == 1 && b[0] == fullRequired && c.secure:
		return c.write(append([]byte(password), 0))
	case len(b) == 1 && b[0] == fullRequired:
		return c.write([]byte{askPublicKey})
	}
	encrypted, err := encryptPassword(b, password, scramble)
	if err != nil {
		return err
	}
	return c.write(encrypted)
}

// ed25519Proof signs the scramble with a key derived from the password, as MariaDB does: Ed25519 with the password in
// place of the seed.
func ed25519Proof(password string, scramble []byte) ([]byte, error) {
	hash := sha512.Sum512([]byte(password))
	secret, err := edwards25519.NewScalar().SetBytesWithClamping(hash[:32])
	if err != nil {
		return nil, err
	}
	public := new(edwards25519.Point).ScalarBaseMult(secret).Bytes()
	nonce, err := hashedScalar(hash[32:], scramble)
	if err != nil {
		return nil, err
	}
	commitment := new(edwards25519.Point).ScalarBaseMult(nonce).Bytes()
	challenge, err := hashedScalar(commitment, public, scramble)
	if err != nil {
		return nil, err
	}
	response := edwards25519.NewScalar().MultiplyAdd(challenge, secret, nonce)
	return append(commitment, response.Bytes()...), nil
}

func hashedScalar(parts ...[]byte) (*edwards25519.Scalar, error) {
	h := sha512.New()
	for _, p := range parts {
		h.Write(p)
	}
	return edwards25519.NewScalar().SetUniformBytes(h.Sum(nil))
}

// encryptPassword encrypts password XOR scramble with a public key in PEM.
func encryptPassword(key []byte, password string, scramble []byte) ([]byte, error) {
	block, _ := pem.Decode(key)
	if block == nil || len(scramble) == 0 {
		return nil, ErrProtocol
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("cannot read the public key of the server: %w", err)
	}
	public, ok := parsed.(*rsa.PublicKey)
	if !ok {
		return nil, ErrProtocol
	}
	plain := append([]byte(password), 0)
	for i := range plain {
		plain[i] ^= scramble[i%len(scramble)]
	}
	return rsa.EncryptOAEP(sha1.New(), rand.Reader, public, plain, nil) //nolint:gosec // the protocol says so
}
