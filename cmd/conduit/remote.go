package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
)

// tokenVariable holds the token that commands send. It is no flag: other users of the
// machine can see those.
const tokenVariable = "CONDUIT_API_TOKEN"

// remote is the running agent that a command asks.
type remote struct {
	*program
	*client.Client
	json bool
}

// remoteCommand describes a command that asks the running agent.
type remoteCommand struct {
	usage     string // words that name the command, and its arguments
	short     string
	long      string
	flags     func(*flag.FlagSet)
	arguments int // that must be given
	optional  int // more that may be
	noJSON    bool
	exec      func(ctx context.Context, r *remote, args []string) error
}

// remote makes a command of c.
func (p *program) remote(name string, c remoteCommand) *ffcli.Command {
	flags, address, asJSON := newFlags(name), "", false
	flags.StringVar(&address, "api.address", "", "`ADDRESS` of the agent (default the setting api.http.address)")
	if !c.noJSON {
		flags.BoolVar(&asJSON, "json", false, "print JSON")
	}
	if c.flags != nil {
		c.flags(flags)
	}
	return &ffcli.Command{
		Name: name, ShortUsage: c.usage + " [flags]", ShortHelp: c.short, LongHelp: c.long, FlagSet: flags,
		Exec: func(ctx context.Context, args []string) error {
			args, err := positional(flags, args, c.arguments+c.optional)
			if err != nil {
				return err
			}
			if len(args) < c.arguments {
				return invalidf("%s needs more arguments: %s", name, c.usage)
			}
			r, err := p.dial(address)
			if err != nil {
				return err
			}
			r.json = asJSON
			return r.explain(c.exec(ctx, r, args))
		},
	}
}

// dial returns the agent at address, by default at the one of the settings.
func (p *program) dial(address string) (*remote, error) {
	c, err := (&settings{}).load(p)
	if err != nil {
		return nil, err
	}
	scheme, token := "http", p.getenv(tokenVariable)
	if address == "" { // the settings say more about this agent, and its token is for no other
		address, token = c.API.HTTP.Address, cmp.Or(token, tokenOf(c.API.Auth))
		if c.API.TLS.CertFile != "" {
			scheme = "https"
		}
	}
	at, err := agentURL(scheme, address)
	if err != nil {
		return nil, invalidf("not the address of an agent: %q; write host:port or a URL", address)
	}
	return &remote{program: p, Client: &client.Client{URL: at, Token: token, HTTP: &http.Client{Transport: transport(c.API.TLS)}}}, nil
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

// transport trusts the certificate of the agent, which may be signed by nobody else.
func transport(c config.TLS) http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: dialTimeout}).DialContext
	if pem, err := os.ReadFile(c.CertFile); err == nil {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		pool.AppendCertsFromPEM(pem)
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return t
}

// agentURL returns the URL of an agent that listens on address. It also takes a URL.
func agentURL(scheme, address string) (string, error) {
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

// remoteError is why the agent did not do what it was asked for.
type remoteError struct {
	message     string
	cause       error
	environment bool
}

func (e *remoteError) Error() string { return e.message }

func (e *remoteError) Unwrap() error { return e.cause }

// Environment reports whether the agent could not be asked, rather than that it refused.
func (e *remoteError) Environment() bool { return e.environment }

// explain says what to do about an error of the client.
func (r *remote) explain(err error) error {
	var refused *client.Error
	var unreachable *url.Error
	switch {
	case errors.As(err, &refused):
		return explainRefusal(refused)
	case errors.As(err, &unreachable):
		return &remoteError{fmt.Sprintf("no agent answers at %s: %v\nStart one with 'conduit run', or say where it is: --api.address, "+
			"CONDUIT_API_HTTP_ADDRESS or api.http.address in conduit.yaml.", r.URL, unreachable.Err), err, true}
	}
	return err
}

func explainRefusal(e *client.Error) error {
	switch {
	case e.HTTP == http.StatusUnauthorized:
		return &remoteError{fmt.Sprintf("%v\nPut a token into %s.", e, tokenVariable), e, true}
	case e.HTTP == http.StatusForbidden, e.HTTP == http.StatusMisdirectedRequest:
		return &remoteError{e.Error(), e, true}
	case e.HTTP/100 == 4 && e.Reason != rest.ReasonPipelineStartFailed:
		return invalidf("%v", e)
	}
	return e
}

// readiness returns how ready the agent is. One that is not ready is an answer, too.
func (r *remote) readiness(ctx context.Context) (rest.Readiness, error) {
	body, err := r.Ready(ctx)
	var refused *client.Error
	if errors.As(err, &refused) && refused.HTTP == http.StatusServiceUnavailable {
		return rest.Readiness{Status: "not ready"}, nil
	}
	return body, err
}

// say writes a line about what was done, unless JSON was asked for: then v.
func (r *remote) say(v any, format string, args ...any) error {
	if r.json {
		return r.writeJSON(v)
	}
	_, err := fmt.Fprintf(r.stdout, format+"\n", args...)
	return err
}

// show writes v as JSON if that was asked for, and otherwise the table.
func (r *remote) show(v any, t *table) error {
	if r.json {
		return r.writeJSON(v)
	}
	return t.write(r.stdout, r.paint)
}
