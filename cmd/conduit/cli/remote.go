package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/plugins/peer"
	"github.com/conduit-agent/conduit/spec"
)

// TokenVariable holds the token that commands send. It is no flag, because other users of the machine can see flags.
const TokenVariable = "CONDUIT_API_TOKEN"

// Remote is the running agent to which a command sends requests.
type Remote struct {
	*Program
	*client.Client
	JSON    bool   // print JSON
	subject string // see About
	socket  string // Unix socket through which requests go; empty: to the URL

	// for Renewed
	settings config.Config
	address  string // empty: that in the settings
	renewed  atomic.Pointer[client.Client]
}

// At returns the place of the agent, for messages: its Unix socket or its URL.
func (r *Remote) At() string { return cmp.Or(r.socket, r.URL) }

// RemoteCommand describes a command that talks to the running agent.
type RemoteCommand struct {
	Usage     string // words that name the command, and its arguments
	Short     string
	Long      string
	Flags     func(*flag.FlagSet)
	Arguments int // number of required arguments
	Optional  int // number of optional arguments
	NoJSON    bool
	Exec      func(ctx context.Context, r *Remote, args []string) error
}

// Remote returns the command that c describes.
func (p *Program) Remote(name string, c RemoteCommand) *ffcli.Command {
	flags, asJSON := NewFlags(name), false
	at := NewAgentFlags(flags)
	if !c.NoJSON {
		flags.BoolVar(&asJSON, "json", false, "print JSON")
	}
	if c.Flags != nil {
		c.Flags(flags)
	}
	return &ffcli.Command{
		Name: name, ShortUsage: c.Usage + " [flags]", ShortHelp: c.Short, LongHelp: c.Long, FlagSet: flags,
		Exec: func(ctx context.Context, args []string) error {
			args, err := Positional(flags, args, c.Arguments+c.Optional)
			if err != nil {
				return err
			}
			if len(args) < c.Arguments {
				return Invalidf("%s needs more arguments: %s", name, c.Usage)
			}
			settings, err := at.Load(p)
			if err != nil {
				return err
			}
			r, err := p.Dial(settings, at.Address)
			if err != nil {
				return err
			}
			r.JSON, r.settings, r.address = asJSON, settings, at.Address
			r.About(append(args, "")[0])
			return r.Explain(c.Exec(ctx, r, args))
		},
	}
}

// AgentFlags are the flags that locate the agent.
type AgentFlags struct {
	*Settings
	Address string
}

// NewAgentFlags defines the flags, including the flags for the settings with these keys.
func NewAgentFlags(fs *flag.FlagSet, keys ...string) *AgentFlags {
	at := &AgentFlags{Settings: SettingFlags(fs,
		append(keys, "api.client.ca-file", "api.client.cert-file", "api.client.key-file")...)}
	fs.StringVar(&at.Address, "api.address", "",
		"`ADDRESS` of the agent: host:port or a URL (default the setting api.http.address)")
	return at
}

// Dial returns the agent at address, by default the agent in the settings.
func (p *Program) Dial(c config.Config, address string) (*Remote, error) {
	if socket := localSocket(c.API.HTTP); address == "" && socket != "" {
		return &Remote{Program: p, socket: socket, Client: &client.Client{URL: "http://localhost",
			HTTP: &http.Client{Transport: throughSocket(socket)}}}, nil
	}
	scheme, token, encrypted := "http", p.Getenv(TokenVariable), c.API.Client != config.Client{}
	if address == "" { // the settings have details of this agent, and its token is for no other
		address, token = c.API.HTTP.Address, cmp.Or(token, tokenOf(c.API.Auth))
		encrypted = encrypted || c.API.TLS.CertFile != ""
	}
	if encrypted {
		scheme = "https"
	}
	at, err := AgentURL(scheme, address)
	if err != nil {
		return nil, Invalidf("invalid address of an agent %q; write host:port or a URL", address)
	}
	t, err := transport(c.API)
	if err != nil {
		return nil, err
	}
	return &Remote{Program: p, Client: &client.Client{URL: at, Token: token, HTTP: &http.Client{Transport: t}}}, nil
}

// Renewed returns a client of the same agent with its present token, certificates and socket, for commands that run for
// long.
func (r *Remote) Renewed(context.Context) (*client.Client, error) {
	now, err := r.Dial(r.settings, r.address)
	if err != nil {
		return nil, err
	}
	if former := r.renewed.Swap(now.Client); former != nil {
		former.HTTP.CloseIdleConnections()
	}
	return now.Client, nil
}

// serviceSocket is the socket for commands of an agent that is installed as a service.
const serviceSocket = "/run/conduit/api.sock"

// localSocket returns the Unix socket of the agent in the settings, "" when there is none, or none that the user may
// open.
func localSocket(c config.HTTP) string {
	path := c.Socket
	if usual := config.Default("api.http.address"); path == "" && c.Address == usual {
		path = serviceSocket
	}
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(context.Background(), "unix", path)
	if err != nil {
		return ""
	}
	conn.Close()
	return path
}

// throughSocket makes all connections through the Unix socket.
func throughSocket(path string) http.RoundTripper {
	t := peer.Transport()
	t.Proxy = nil
	t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", path)
	}
	return Promptly(t)
}

// tokenOf returns the agent's own token, if the user may read it.
func tokenOf(c config.Auth) string {
	for _, file := range []string{c.AdminTokenFile, c.ReadTokenFile} {
		if text, err := os.ReadFile(file); err == nil {
			return strings.TrimSpace(string(text))
		}
	}
	return ""
}

const dialTimeout = 5 * time.Second

// transport trusts the certificate of the agent, which may be self-signed, and the authorities in the settings. It
// presents the certificate in the settings.
func transport(c config.API) (http.RoundTripper, error) {
	t := peer.Transport()
	t.DialContext = (&net.Dialer{Timeout: dialTimeout}).DialContext
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if err := trust(t.TLSClientConfig, c); err != nil {
		return nil, err
	}
	if c.Client.CertFile != "" || c.Client.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(c.Client.CertFile, c.Client.KeyFile)
		if err != nil {
			return nil, Invalidf("cannot load the certificate in api.client.cert-file and its key in "+
				"api.client.key-file: %v", err)
		}
		t.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	return Promptly(t), nil
}

func trust(t *tls.Config, c config.API) error {
	if c.TLS.CertFile == "" && c.Client.CAFile == "" {
		return nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	t.RootCAs = pool
	if pem, err := os.ReadFile(c.TLS.CertFile); err == nil {
		pool.AppendCertsFromPEM(pem)
	}
	if c.Client.CAFile == "" {
		return nil
	}
	pem, err := os.ReadFile(c.Client.CAFile)
	if err == nil && !pool.AppendCertsFromPEM(pem) {
		err = fmt.Errorf("%s contains no PEM certificate", c.Client.CAFile)
	}
	if err != nil {
		return Invalidf("cannot read api.client.ca-file: %v", err)
	}
	return nil
}

// AgentURL returns the URL of an agent that listens on address, which may be a URL already.
func AgentURL(scheme, address string) (string, error) {
	if strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "https://") {
		u, err := url.Parse(address)
		if err == nil && u.Host == "" {
			err = errors.New("no host")
		}
		return strings.TrimSuffix(address, "/"), err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port), nil
}

// Stopped reports whether a pipeline is declared stopped, and has stopped.
func Stopped(s *rest.PipelineStatus) bool {
	return cmp.Or(s.Override, s.Declared) == spec.StatusStopped &&
		(s.State.Phase == "" || s.State.Phase == spec.PhaseStopped)
}

// remoteError is the reason why the agent did not perform a request.
type remoteError struct {
	message     string
	cause       error
	environment bool
}

func (e *remoteError) Error() string { return e.message }

func (e *remoteError) Unwrap() error { return e.cause }

// Environment reports whether the agent could not be reached, rather than refused the request.
func (e *remoteError) Environment() bool { return e.environment }

// Explain adds a remedy to an error of the client.
func (r *Remote) Explain(err error) error {
	var refused *client.Error
	var unreachable *url.Error
	switch {
	case foreign(err) != "":
		return &remoteError{fmt.Sprintf("the server at %s is not a conduit agent: %s\nSet the address of the agent: "+
			"--api.address, "+
			"CONDUIT_API_HTTP_ADDRESS or api.http.address in conduit.yaml.", r.At(), foreign(err)), err, true}
	case errors.As(err, &refused):
		return r.explainRejection(refused)
	case errors.As(err, &unreachable) && mistrust(err) != "":
		return &remoteError{fmt.Sprintf("the agent at %s and this command do not trust each other: %v\n%s", r.At(),
			unreachable.Err, mistrust(err)), err, true}
	case errors.As(err, &unreachable):
		return &remoteError{fmt.Sprintf("no agent answers at %s: %v\nStart one with 'conduit run', or set its "+
			"address: --api.address, CONDUIT_API_HTTP_ADDRESS or api.http.address in "+
			"conduit.yaml.", r.At(), unreachable.Err), err, true}
	}
	return err
}

// foreign returns the evidence that an answer comes from another program, "" when there is none: the agent gives
// reasons, and JSON.
func foreign(err error) string {
	var refused *client.Error
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &refused) && refused.Reason == "" &&
		slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented},
			refused.HTTP):
		return fmt.Sprintf("it does not know the request (%d %s)", refused.HTTP, http.StatusText(refused.HTTP))
	case errors.As(err, &syntax):
		return "its response is not JSON"
	}
	return ""
}

// About sets the pipeline or connector of the following requests, which advice names. The default is the first argument
// of the command.
func (r *Remote) About(id string) { r.subject = id }

// advice is the command that helps, in place of the request that the API suggests. %[1]s is the subject of the request.
var advice = map[string]string{
	rest.ReasonPipelineNotFound: "'conduit pipelines ls' lists the pipelines",
	rest.ReasonConnectorNotFound: "'conduit connectors ls' lists the connectors; an id has the form " +
		"PIPELINE:CONNECTOR",
	rest.ReasonRevisionNotFound: "'conduit pipelines history %[1]s' lists the generations",
	rest.ReasonFileNotWritten: "print the revision with 'conduit pipelines export %[1]s --revision N', and save " +
		"the text in the file yourself",
	rest.ReasonPipelineNotDeleted: "remove its file, or, if it belongs to the API, conduit pipelines delete %[1]s; " +
		"it is deleted after pipelines.cleanup-delay",
	rest.ReasonPipelineRunning: "stop it first: conduit pipelines stop %[1]s; to start it again: conduit " +
		"pipelines restart %[1]s",
	rest.ReasonPipelineNotRunning: "'conduit pipelines describe %[1]s' shows the reason",
	rest.ReasonOwnedByFile: "change or remove the file, which takes effect when it is saved, or hand the " +
		"pipeline over first: conduit pipelines adopt %[1]s --owner api",
	rest.ReasonNoFile:          "write it to a file first: conduit pipelines export %[1]s > pipelines/%[1]s.yaml",
	rest.ReasonTimeout:         "the operation continues: 'conduit pipelines describe %[1]s' shows its progress",
	rest.ReasonUnauthenticated: "put a token into the variable " + TokenVariable,
	rest.ReasonForbidden:       "put the admin token into the variable " + TokenVariable,
}

// noDeadLetter is the advice for an unknown number of a dead letter. The reason of that error is the general one for a
// missing resource.
const noDeadLetter = "it may have been replayed or dropped; 'conduit dlq ls %[1]s' lists the dead letters"

// advise returns e with the advice of this command line in place of the API's.
func (r *Remote) advise(e *client.Error) *client.Error {
	words, ok := advice[e.Reason]
	if e.Reason == rest.ReasonNotFound && e.Metadata["configPath"] == "letter" {
		words, ok = noDeadLetter, true
	}
	if !ok {
		return e
	}
	advised := *e
	advised.Metadata = maps.Clone(e.Metadata)
	if strings.Contains(words, "%[1]s") {
		words = fmt.Sprintf(words, cmp.Or(r.subject, "ID"))
	}
	return advised.Suggest("%s", words)
}

func (r *Remote) explainRejection(e *client.Error) error {
	e = r.advise(e)
	switch {
	case e.HTTP == http.StatusBadRequest && e.Reason == "" && strings.HasPrefix(r.URL, "http://"):
		return &remoteError{fmt.Sprintf("%v\nIf it uses HTTPS, include the scheme: --api.address %s", e,
			"https"+strings.TrimPrefix(r.URL, "http")), e, true}
	case e.HTTP == http.StatusUnauthorized:
		if e.Reason == "" {
			e.Suggest("%s", advice[rest.ReasonUnauthenticated])
		}
		return &remoteError{e.Error(), e, true}
	case e.HTTP == http.StatusForbidden, e.HTTP == http.StatusMisdirectedRequest:
		return &remoteError{e.Error(), e, true}
	case e.HTTP/100 == 4 && e.Reason != rest.ReasonPipelineStartFailed:
		return Invalidf("%v", e)
	}
	return e
}

// Say writes a line about the completed operation, or v if JSON was requested.
func (r *Remote) Say(v any, format string, args ...any) error {
	if r.JSON {
		return r.WriteJSON(v)
	}
	_, err := fmt.Fprintf(r.Stdout, format+"\n", args...)
	return err
}

// Show writes v as JSON if JSON was requested, and otherwise the table.
func (r *Remote) Show(v any, t *terminal.Table) error {
	if r.JSON {
		return r.WriteJSON(v)
	}
	return t.Write(r.Stdout, r.Paint)
}
