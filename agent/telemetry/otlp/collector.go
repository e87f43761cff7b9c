package otlp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/conduit-agent/conduit/agent/config"
)

// collector makes exporters for the signals. Their options name everything that OTEL_EXPORTER_OTLP_* variables could
// set, so that the settings of the agent are the only ones.
type collector struct {
	endpoint   *url.URL
	grpc       bool
	headers    map[string]string
	attributes []attribute.KeyValue
	tls        *tls.Config // nil: without TLS
}

// lastRetry is the longest pause between the retries of a request.
const lastRetry = 5 * time.Second

func newCollector(s *config.OTLP) (*collector, error) {
	c := &collector{grpc: s.Protocol == "grpc", headers: map[string]string{}}
	var err error
	if c.endpoint, err = endpoint(s); err != nil {
		return nil, fmt.Errorf("cannot use telemetry.otlp.endpoint: %w", err)
	}
	err = pairs(s.Headers, func(name, value string) error {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return fmt.Errorf("the header %q is not valid in HTTP", name)
		}
		c.headers[name] = value
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot use telemetry.otlp.headers: %w", err)
	}
	err = pairs(s.Attributes, func(name, value string) error {
		c.attributes = append(c.attributes, attribute.String(name, value))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot use telemetry.otlp.attributes: %w", err)
	}
	if c.endpoint.Scheme == "https" {
		c.tls, err = tlsConfig(s)
	}
	return c, err
}

// endpoint returns the URL of the collector.
func endpoint(s *config.OTLP) (*url.URL, error) {
	u, err := url.Parse(s.Endpoint)
	switch {
	case err != nil:
		return nil, errors.New("it is not a URL such as https://collector.example.com:4318")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("%q is not a URL that begins with http:// or https:// and has a host", s.Endpoint)
	case u.User != nil:
		return nil, errors.New("it contains a user name: put credentials into telemetry.otlp.headers")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("it has a query or a fragment, which OTLP does not use")
	case s.Protocol == "grpc" && strings.Trim(u.Path, "/") != "":
		return nil, errors.New("it has a path, which OTLP over gRPC does not use")
	case u.Scheme == "http" && (s.CAFile != "" || s.CertFile != "" || s.KeyFile != ""):
		return nil, errors.New("it begins with http://, but telemetry.otlp.ca-file, cert-file and key-file need https://")
	}
	return u, nil
}

// pairs calls f for each name=value of a list that is separated by commas.
func pairs(list string, f func(name, value string) error) error {
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, value, ok := strings.Cut(item, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return errors.New("an item is not name=value") // which could be a secret
		}
		if err := f(name, strings.TrimSpace(value)); err != nil {
			return err
		}
	}
	return nil
}

func tlsConfig(s *config.OTLP) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CAFile != "" {
		pem, err := os.ReadFile(s.CAFile)
		if err != nil {
			return nil, fmt.Errorf("cannot use telemetry.otlp.ca-file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("cannot use telemetry.otlp.ca-file: %s has no certificate in PEM", s.CAFile)
		}
	}
	if (s.CertFile == "") != (s.KeyFile == "") {
		return nil, errors.New("cannot use telemetry.otlp.cert-file: set it and telemetry.otlp.key-file, or neither")
	}
	if s.CertFile != "" {
		load := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("cannot use telemetry.otlp.cert-file and telemetry.otlp.key-file: %w", err)
			}
			return &pair, nil
		}
		if _, err := load(); err != nil {
			return nil, err
		}
		// Loaded for each connection, so that a renewed certificate takes effect.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return c, nil
}

// secrets returns the values of the headers.
func (c *collector) secrets() []string { return slices.Collect(maps.Values(c.headers)) }

// url returns the URL of a signal for OTLP over HTTP.
func (c *collector) url(signal string) string { return c.endpoint.JoinPath("v1", signal).String() }

// credentials returns the credentials for OTLP over gRPC.
func (c *collector) credentials() credentials.TransportCredentials {
	if c.tls == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(c.tls)
}

// host returns the host and port for OTLP over gRPC.
func (c *collector) host() string {
	switch {
	case c.endpoint.Port() != "":
		return c.endpoint.Host
	case c.endpoint.Scheme == "http":
		return c.endpoint.Host + ":80"
	}
	return c.endpoint.Host + ":443"
}

func (c *collector) spans(ctx context.Context) (trace.SpanExporter, error) {
	if c.grpc {
		return otlptrace.New(ctx, otlptracegrpc.NewClient(otlptracegrpc.WithEndpoint(c.host()),
			otlptracegrpc.WithTLSCredentials(c.credentials()), otlptracegrpc.WithHeaders(c.headers),
			otlptracegrpc.WithCompressor("gzip"), otlptracegrpc.WithTimeout(pace.export),
			otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: true, InitialInterval: pace.retry,
				MaxInterval: lastRetry, MaxElapsedTime: pace.export})))
	}
	return otlptrace.New(ctx, otlptracehttp.NewClient(otlptracehttp.WithEndpointURL(c.url("traces")),
		otlptracehttp.WithTLSClientConfig(c.tls), otlptracehttp.WithHeaders(c.headers),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression), otlptracehttp.WithTimeout(pace.export),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: pace.retry,
			MaxInterval: lastRetry, MaxElapsedTime: pace.export})))
}

func (c *collector) series(ctx context.Context) (metric.Exporter, error) {
	if c.grpc {
		return otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpoint(c.host()),
			otlpmetricgrpc.WithTLSCredentials(c.credentials()), otlpmetricgrpc.WithHeaders(c.headers),
			otlpmetricgrpc.WithCompressor("gzip"), otlpmetricgrpc.WithTimeout(pace.export),
			otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{Enabled: true, InitialInterval: pace.retry,
				MaxInterval: lastRetry, MaxElapsedTime: pace.export}))
	}
	return otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(c.url("metrics")),
		otlpmetrichttp.WithTLSClientConfig(c.tls), otlpmetrichttp.WithHeaders(c.headers),
		otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression), otlpmetrichttp.WithTimeout(pace.export),
		otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{Enabled: true, InitialInterval: pace.retry,
			MaxInterval: lastRetry, MaxElapsedTime: pace.export}))
}

func (c *collector) records(ctx context.Context) (log.Exporter, error) {
	if c.grpc {
		return otlploggrpc.New(ctx, otlploggrpc.WithEndpoint(c.host()),
			otlploggrpc.WithTLSCredentials(c.credentials()), otlploggrpc.WithHeaders(c.headers),
			otlploggrpc.WithCompressor("gzip"), otlploggrpc.WithTimeout(pace.export),
			otlploggrpc.WithRetry(otlploggrpc.RetryConfig{Enabled: true, InitialInterval: pace.retry,
				MaxInterval: lastRetry, MaxElapsedTime: pace.export}))
	}
	return otlploghttp.New(ctx, otlploghttp.WithEndpointURL(c.url("logs")),
		otlploghttp.WithTLSClientConfig(c.tls), otlploghttp.WithHeaders(c.headers),
		otlploghttp.WithCompression(otlploghttp.GzipCompression), otlploghttp.WithTimeout(pace.export),
		otlploghttp.WithRetry(otlploghttp.RetryConfig{Enabled: true, InitialInterval: pace.retry,
			MaxInterval: lastRetry, MaxElapsedTime: pace.export}))
}
