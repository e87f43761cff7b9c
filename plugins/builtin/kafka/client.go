package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/peer"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// clientSettings are the connection settings of source and destination.
type clientSettings struct {
	// Brokers for the initial connection, as host:port. They report the other brokers.
	Servers []string `json:"servers" validate:"required"`
	// Client name in the logs and quotas of brokers.
	ClientID string `json:"clientID" literal:"true" default:"conduit-connector-kafka"`
	// Whether connections use TLS. Otherwise the certificate settings have no effect.
	TLS bool `json:"tls.enabled" default:"false"`
	// Certificates, in PEM, to trust in addition to those of the system.
	CACert string `json:"caCert"`
	// Certificate of this client, in PEM.
	ClientCert string `json:"clientCert"`
	// Key of the certificate, in PEM.
	ClientKey string `json:"clientKey"`
	// Whether to skip verification of broker certificates. Anyone can then impersonate a broker.
	InsecureSkipVerify bool `json:"insecureSkipVerify" default:"false"`
	// Timeout of a broker's response, in addition to the wait time of the request. After it the connection is closed.
	Timeout time.Duration `json:"timeout" default:"10s" validate:"gt=0"`
	saslSettings
}

// options returns the client options for connecting.
func (s *clientSettings) options() ([]kgo.Opt, error) {
	for _, server := range s.Servers {
		if err := common.CheckAddress("servers", server); err != nil {
			return nil, err
		}
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(s.Servers...),
		kgo.ClientID(s.ClientID),
		kgo.DisableClientMetrics(),
		kgo.MetadataMaxAge(time.Minute),
		kgo.MetadataMinAge(time.Second),
		kgo.RequestTimeoutOverhead(min(max(s.Timeout, 100*time.Millisecond), 15*time.Minute)), // limits of the client
	}
	dialer, err := s.dialer(nil)
	if err != nil {
		return nil, err
	}
	opts = append(opts, dialer)
	mechanism, err := s.mechanism()
	if err != nil {
		return nil, err
	}
	if mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts, nil
}

// dialer returns the option for dialing brokers. The dialer calls batch, which may be nil, with each fetched batch of
// messages.
func (s *clientSettings) dialer(batch peer.BatchFunc) (kgo.Opt, error) {
	if !s.TLS {
		return kgo.Dialer(newDialer(nil, batch)), nil
	}
	secure, err := s.tlsConfig()
	if err != nil {
		return nil, err
	}
	return kgo.Dialer(newDialer(secure, batch)), nil
}

// bounded returns the options of a client that fetches messages, and the bound on their memory.
func (s *clientSettings) bounded(most int) ([]kgo.Opt, *Bound, error) {
	bound, err := New(most)
	if err != nil {
		return nil, nil, err
	}
	dialer, err := s.dialer(bound.Mark)
	return []kgo.Opt{dialer, kgo.WithDecompressor(bound)}, bound, err
}

func (s *clientSettings) tlsConfig() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: s.InsecureSkipVerify}
	if s.CACert != "" {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM([]byte(s.CACert)) {
			return nil, sdk.SettingError{Setting: "caCert",
				Message: "has no certificate: set it to the text of a PEM file, for example with " +
					"${file:PATH}, not to a path"}
		}
		c.RootCAs = roots
	}
	if s.ClientCert == "" && s.ClientKey == "" {
		return c, nil
	}
	pair, err := tls.X509KeyPair([]byte(s.ClientCert), []byte(s.ClientKey))
	if err != nil {
		return nil, sdk.SettingError{Setting: "clientCert",
			Message: fmt.Sprintf("cannot configure client TLS: %v", err)}
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

// reachTimeout bounds the time for the first answer of a broker.
const reachTimeout = 10 * time.Second

// reach returns nil when a broker answers.
func reach(ctx context.Context, client *kgo.Client, servers []string, net *network) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	err := client.Ping(ctx)
	if err == nil {
		return nil
	}
	if cause := net.failed(); cause != nil && ctx.Err() != nil {
		err = cause
	}
	return sdk.Unavailable(fmt.Errorf("cannot reach any broker of %v: %w", servers, dialed(err)))
}

// network tracks whether brokers accept connections. It is a hook of the client.
type network struct {
	log *slog.Logger

	mu  sync.Mutex
	err error // error of the last connection attempt; nil if it succeeded
}

var _ kgo.HookBrokerConnect = (*network)(nil)

// OnBrokerConnect records the result of a connection attempt.
func (n *network) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, kgo.ErrClientClosed) {
		return
	}
	n.mu.Lock()
	before := n.err
	n.err = err
	n.mu.Unlock()
	switch {
	case err != nil && before == nil:
		n.log.Warn("cannot connect to a broker, retrying with exponential backoff",
			"broker", net.JoinHostPort(meta.Host, fmt.Sprint(meta.Port)), "err", dialed(err))
	case err == nil && before != nil:
		n.log.Info("connected to a broker again", "broker", net.JoinHostPort(meta.Host, fmt.Sprint(meta.Port)))
	}
}

// dialed returns err without the client's text for a failed connection, which err repeats.
func dialed(err error) error {
	if cause := errors.Unwrap(err); cause != nil && strings.HasPrefix(err.Error(), "unable to dial: ") {
		return cause
	}
	return err
}

func (n *network) failed() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// administer calls do with an administration client, and closes the client afterwards.
func administer(ctx context.Context, opts []kgo.Opt, do func(context.Context, *kadm.Client) error) error {
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	return do(ctx, kadm.NewClient(client))
}
