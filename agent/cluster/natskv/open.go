package natskv

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/conduit-agent/conduit/plugins/peer"
)

const connectTimeout = 2 * time.Second

// Open connects to NATS, and keeps trying while NATS is out of reach. Messages that cannot be sent are not buffered: a
// delayed write must be known to be delayed.
func Open(o Options) (*Store, error) {
	options := []nats.Option{
		nats.Name("conduit " + o.Name),
		nats.MaxReconnects(-1),
		nats.RetryOnFailedConnect(true),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(time.Second, 2*time.Second),
		nats.PingInterval(2 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.Timeout(connectTimeout),
		nats.ReconnectBufSize(-1),
		// A separate prefix, so that a user can be denied the answers to others.
		nats.CustomInboxPrefix("_INBOX_conduit-" + o.Cluster),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				o.Log.Warn("connection to NATS lost", "component", "cluster", "err", err)
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) {
			o.Log.Info("connected to NATS", "component", "cluster", "server", c.ConnectedUrlRedacted())
		}),
		// A denied publish would otherwise look like a time-out.
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			o.Log.Error("NATS reports an error", "component", "cluster", "err", err)
		}),
	}
	if o.Credentials != "" {
		options = append(options, nats.UserCredentials(o.Credentials))
	}
	if o.NKey != "" {
		key, err := nats.NkeyOptionFromSeed(o.NKey)
		if err != nil {
			return nil, fmt.Errorf("cannot read the seed of the key for NATS: %w", err)
		}
		options = append(options, key)
	}
	secure, err := o.tls()
	if err != nil {
		return nil, err
	}
	if secure != nil {
		options = append(options, nats.Secure(secure))
	}
	host, err := o.host()
	if err != nil {
		return nil, err
	}
	dialer := &peer.NATSDialer{Timeout: connectTimeout, TLS: secure, Host: host}
	options = append(options, nats.SkipHostLookup(), nats.SetCustomDialer(dialer))
	conn, err := nats.Connect(o.URL, options...)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to NATS: %w", err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("cannot use JetStream: %w", err)
	}
	return &Store{conn: conn, js: js, prefix: "$KV.conduit-" + o.Cluster + "."}, nil
}

// host checks the addresses, and returns the host of the first one. Servers announced by NATS are known by address
// only, and show certificates for that host.
func (o *Options) host() (first string, err error) {
	for one := range strings.SplitSeq(o.URL, ",") {
		if one = strings.TrimSpace(one); !strings.Contains(one, "://") {
			one = "nats://" + one
		}
		u, err := url.Parse(one)
		if err != nil || u.Scheme != "nats" && u.Scheme != "tls" {
			return "", errors.New("cannot connect to NATS: its address must be nats://HOST:PORT or tls://HOST:PORT, " +
				"several separated by commas")
		}
		first = cmp.Or(first, u.Hostname())
	}
	return first, nil
}

// tls returns the TLS configuration if the addresses or the settings require TLS, else nil.
func (o *Options) tls() (*tls.Config, error) {
	if !strings.Contains(o.URL, "tls://") && o.CA == "" && o.Certificate == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("cannot read the certificate authorities of NATS: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("cannot read the certificate authorities of NATS: %s has no certificate", o.CA)
		}
	}
	if o.Certificate != "" {
		// Loaded for each connection, so that a renewed certificate takes effect.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(o.Certificate, o.Key)
			return &pair, err
		}
	}
	return c, nil
}

// Ready prepares the stream of the cluster. It creates the stream if there is none, and otherwise verifies it. An error
// of type *UnfitError is permanent.
func (s *Store) Ready(ctx context.Context, o Options) error {
	want := streamConfig(o.Cluster, o.Replicas)
	stream, err := s.js.Stream(ctx, want.Name)
	if err == nil || errors.Is(err, jetstream.ErrStreamNotFound) {
		if err := fit(s.conn.ConnectedServerVersion(), s.conn.MaxPayload()); err != nil {
			return err
		}
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		// Another member may have created the stream meanwhile.
		if stream, err = s.js.CreateStream(ctx, want); errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			stream, err = s.js.Stream(ctx, want.Name)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot open the stream %s: %w%s", want.Name, err, remedy(err, o.Replicas))
	}
	if wrong := differences(want, stream.CachedInfo().Config); len(wrong) > 0 {
		return &UnfitError{wrong}
	}
	s.begun.Store(stream.CachedInfo().Created.UnixNano())
	s.stream.Store(&stream)
	return nil
}

// JetStream error codes without a name in the client.
const (
	codeNoPeers             = 10005 // the cluster has too few servers for the replicas of a stream
	codeReplicasUnsupported = 10074 // the server is not part of a NATS cluster
)

// remedy returns a remedy for a JetStream error, or "" if none is known.
func remedy(err error, replicas int) string {
	const noJetStream = ": start the server with --jetstream, and allow JetStream to the account"
	if errors.Is(err, nats.ErrNoResponders) { // JetStream is not available
		return noJetStream
	}
	var answer jetstream.JetStreamError
	if !errors.As(err, &answer) || answer.APIError() == nil {
		return ""
	}
	switch answer.APIError().ErrorCode {
	case codeReplicasUnsupported:
		return fmt.Sprintf(": this is a single server, which keeps one copy, and cluster.nats.replicas is %d; "+
			"set cluster.nats.replicas to 1, or connect to a cluster of %d servers", replicas, max(3, replicas))
	case codeNoPeers:
		return fmt.Sprintf(": cluster.nats.replicas is %d; start as many servers with JetStream, or set fewer",
			replicas)
	case jetstream.JSErrCodeJetStreamNotEnabled, jetstream.JSErrCodeJetStreamNotEnabledForAccount:
		return noJetStream
	}
	return ""
}

// differences lists the required properties that a stream lacks. The number of replicas and the limits are up to the
// operator of the server.
func differences(want, is jetstream.StreamConfig) (wrong []string) {
	check := func(ok bool, what string) {
		if !ok {
			wrong = append(wrong, "the stream "+want.Name+" "+what)
		}
	}
	check(is.MaxMsgsPerSubject == 1, "must keep one message for each subject")
	check(is.AllowMsgTTL, "must allow messages to expire (allow_msg_ttl)")
	check(is.SubjectDeleteMarkerTTL == 0, "must leave no markers (subject_delete_marker_ttl)")
	check(!is.AllowDirect, "must be read from its leader (allow_direct is set)")
	check(is.Discard == jetstream.DiscardNew, "must refuse new messages when it is full (discard)")
	check(is.MaxAge == 0, "must keep claims forever (max_age)")
	check(is.Storage == jetstream.FileStorage, "must be stored in files")
	check(is.Retention == jetstream.LimitsPolicy, "must keep messages that were read (retention)")
	check(is.MaxMsgSize <= 0 || is.MaxMsgSize >= minMessage,
		fmt.Sprintf("must take messages of %d bytes (max_msg_size)", minMessage))
	check(is.Mirror == nil && len(is.Sources) == 0, "must not be a mirror")
	return wrong
}

// minMessage is the smallest acceptable limit for messages, in bytes: dead letters take up to 768 KiB.
const minMessage = 1_000_000

// fit returns an error if a server with this version and message limit is unfit. version is empty while there is no
// connection.
func fit(version string, message int64) error {
	var major, minor int
	switch _, err := fmt.Sscanf(version, "%d.%d.", &major, &minor); {
	case version == "":
		return nats.ErrDisconnected
	case err != nil, major < 2, major == 2 && minor < 12:
		return &UnfitError{[]string{"the server has version " + version + ", but 2.12 or later is required"}}
	case message < minMessage:
		return &UnfitError{[]string{fmt.Sprintf("the server takes messages of up to %d bytes (max_payload), and %d "+
			"are needed", message, minMessage)}}
	}
	return nil
}
