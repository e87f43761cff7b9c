package cli

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent/agenttest"
	plugincatalog "github.com/conduit-agent/conduit/agent/catalog"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/parts"
	"github.com/conduit-agent/conduit/spec"
)

// certificate writes a self-signed certificate for servers and clients, and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotAfter:    time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return file(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))),
		file(t, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})))
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// guarded is an agent that requires client certificates and tokens, with the pipeline orders, and the files that a
// client needs.
type guarded struct {
	*agenttest.Agent
	t                 *testing.T
	server, cert, key string
}

func startGuarded(t *testing.T) *guarded {
	g := &guarded{t: t}
	serverCert, serverKey := certificate(t)
	g.server = serverCert
	g.cert, g.key = certificate(t)
	g.Agent = agenttest.Start(t, "", agenttest.ConfirmSoon, func(c *config.Config) {
		c.API.TLS = config.TLS{CertFile: serverCert, KeyFile: serverKey, ClientCAFile: g.cert}
		c.API.Auth = config.Auth{ReadTokenFile: file(t, "reader"), AdminTokenFile: file(t, "admin")}
	})
	g.Save("orders.yaml", g.orders("1"))
	g.WaitPhase("orders", spec.PhaseRunning, 1)
	g.Save("orders.yaml", g.orders("100"))
	g.WaitPhase("orders", spec.PhaseRunning, 2)
	return g
}

func (g *guarded) orders(rate string) string {
	return `version: "2.2"
pipelines:
  - id: orders
    connectors:
      - {id: in, type: source, plugin: generator, settings: {rate: ` + rate + `, format.type: raw}}
      - {id: out, type: destination, plugin: file, settings: {path: ` + g.Path("out.txt") + `}}
`
}

// run runs a command and returns its output.
func (g *guarded) run(environ []string, words ...string) (code int, stdout, stderr string) {
	g.t.Helper()
	return runHere(g.t, slices.Concat([]string{ // instead of the working directory
		"CONDUIT_CONFIG_PATH=" + g.Path("conduit.yaml"), "CONDUIT_CONNECTORS_PATH=" + g.Path("connectors"),
		"CONDUIT_PROCESSORS_PATH=" + g.Path("processors"),
	}, environ), words...)
}

// runHere runs a command in this process and returns its output.
func runHere(t *testing.T, environ []string, words ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	p := &Program{Stdout: &out, Stderr: &err, Environ: environ, Catalog: func(c config.Config,
		log *slog.Logger) Catalog {
		return plugincatalog.Offline(parts.Plugins(), c, log)
	}}
	return Run(t.Context(), p, words), out.String(), err.String()
}

// flags returns the flags that a client of the agent needs.
func (g *guarded) flags() []string {
	return []string{"--api.address", g.Address(), "--api.client.ca-file", g.server, "--api.client.cert-file", g.cert,
		"--api.client.key-file", g.key}
}

// TestEveryCommandReachesAGuardedAgent runs each command that talks to the agent.
func TestEveryCommandReachesAGuardedAgent(t *testing.T) {
	t.Parallel()
	g := startGuarded(t)
	admin := []string{TokenVariable + "=admin"}
	ran := []string{}
	for _, command := range []string{
		// which has no target
		"status --interval 1ms", "reload --wait", "connectors ls", "connectors describe orders:in",
		"connectors position orders:in", "connectors inspect orders:in -n 1", "logs orders -n 1", "notify test",
		"pipelines ls", "pipelines describe orders", "pipelines history orders", "pipelines trend orders",
		"pipelines diff orders",
		"pipelines export orders",
		"pipelines plan", "pipelines stop orders", "pipelines start orders", "pipelines restart orders",
		"pipelines adopt orders --owner api", "pipelines rollback orders 1",
		"pipelines dry-run " + g.Path("pipelines/orders.yaml") + " --take 1",
		"doctor --pipelines.path " + g.Path("pipelines"), "pipelines import " + g.Path("pipelines/orders.yaml") +
			" --live", "pipelines apply " + g.Path("pipelines/orders.yaml"), "events -n 1",
		// which is not deleted
		"pipelines purge orders",
		// which has none
		"dlq ls orders", "dlq replay orders --all", "dlq cancel orders", "dlq drop orders --all", "dlq show orders 1",
		"dlq edit orders 1",
		"pipelines stop orders", "pipelines delete orders", "cluster status", "cluster members", "cluster drain",
		"cluster resume",
	} {
		words := strings.Fields(command)
		code, stdout, stderr := g.run(admin, slices.Concat(words, []string{"--json"}, g.flags())...)
		refused := code == ExitInvalid &&
			regexp.MustCompile(
				`"orders" is not deleted|no dead letter|not a member of a cluster|notifications are not configured`).MatchString(
				stderr)
		if !refused && (code != ExitOK || !json.Valid([]byte(stdout))) {
			t.Errorf("%s ended with %d: %s%s", command, code, stdout, stderr)
		}
		ran = append(ran, words[0], strings.Join(words[:2], " "))
	}
	eachCommand(root(&Program{}), "", func(name string, c *ffcli.Command) {
		if c.FlagSet != nil && c.FlagSet.Lookup("api.address") != nil && !slices.Contains(ran, name) {
			t.Errorf("%s is not tested", name)
		}
	})
}

func eachCommand(c *ffcli.Command, prefix string, do func(name string, c *ffcli.Command)) {
	for _, s := range c.Subcommands {
		name := strings.TrimSpace(prefix + " " + s.Name)
		do(name, s)
		eachCommand(s, name, do)
	}
}

// TestGuardedAgentSaysWhatIsMissing leaves out required settings of a client, and gives them in other ways.
func TestGuardedAgentSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	g := startGuarded(t)
	strange, strangeKey := certificate(t)
	client := func(ca, cert, key string) []string {
		return []string{"CONDUIT_API_CLIENT_CA_FILE=" + ca, "CONDUIT_API_CLIENT_CERT_FILE=" + cert,
			"CONDUIT_API_CLIENT_KEY_FILE=" + key}
	}
	all := client(g.server, g.cert, g.key)
	for _, tt := range []struct {
		name    string
		environ []string
		command string
		code    int
		want    string // on stderr
	}{
		{"by variables", append(all, TokenVariable+"=admin"), "pipelines ls", ExitOK, ""},
		{"the read token reads", append(all, TokenVariable+"=reader"), "pipelines plan", ExitOK, ""},
		{"the read token is not enough", append(all, TokenVariable+"=reader"), "pipelines stop orders", ExitEnvironment,
			"put the admin token into the variable " + TokenVariable},
		{"no token", all, "pipelines ls", ExitEnvironment, "put a token into the variable " + TokenVariable},
		{"a wrong token", append(all, TokenVariable+"=guess"), "pipelines ls", ExitEnvironment, "put a token into"},
		{"no certificate", append(client(g.server, "", ""), TokenVariable+"=admin"), "pipelines ls", ExitEnvironment,
			"api.client.cert-file"},
		{"a strange certificate", append(client(g.server, strange, strangeKey), TokenVariable+"=admin"), "pipelines ls",
			ExitEnvironment, "api.client.cert-file"},
		{"an agent that is not known", append(client("", g.cert, g.key), TokenVariable+"=admin"), "pipelines ls",
			ExitEnvironment, "api.client.ca-file"},
		{"no key", append(client(g.server, g.cert, ""), TokenVariable+"=admin"), "pipelines ls", ExitInvalid,
			"api.client.key-file"},
		{"no such file", append(client("nowhere", g.cert, g.key), TokenVariable+"=admin"), "pipelines ls", ExitInvalid,
			"api.client.ca-file"},
		{"no PEM", append(client(file(t, "x"), g.cert, g.key), TokenVariable+"=admin"), "pipelines ls", ExitInvalid,
			"no PEM certificate"},
	} {
		words := append(strings.Fields(tt.command), "--api.address", g.Address())
		if code, _, stderr := g.run(tt.environ, words...); code != tt.code || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: ended with %d, want %d and %q: %s", tt.name, code, tt.code, tt.want, stderr)
		}
	}

	if code, _, stderr := g.run(nil, "pipelines", "ls", "--api.address",
		"http://"+g.Address()); code != ExitEnvironment || !strings.Contains(stderr, "https://"+g.Address()) {
		t.Errorf("without encryption: ended with %d: %s", code, stderr)
	}
	settings := file(t, "api:\n  http: {address: \""+g.Address()+"\"}\n  client: {ca-file: "+g.server+", cert-file: "+
		g.cert+", key-file: "+g.key+"}\n")
	if code, stdout, stderr := g.run([]string{TokenVariable + "=admin"}, "pipelines", "ls", "--config.path",
		settings); code != ExitOK || !strings.Contains(stdout, "orders") {
		t.Errorf("by settings: ended with %d: %s%s", code, stdout, stderr)
	}
}
