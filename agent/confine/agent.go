package confine

import (
	"path/filepath"
	"strings"

	"github.com/conduit-agent/conduit/agent/config"
)

// New returns what settings of pipelines may name of the machine of an agent with these
// settings.
func New(c config.Config) *Paths {
	p := &Paths{Store: c.DB.SQLite.Path, Dir: c.Dir}
	for path := range strings.SplitSeq(c.Pipelines.AllowedPaths, ",") {
		if path = strings.TrimSpace(path); path != "" {
			p.Allowed = append(p.Allowed, path)
		}
	}
	nats := c.Cluster.NATS
	for _, path := range []string{c.File, c.API.HTTP.Socket, c.API.TLS.KeyFile, c.API.Client.KeyFile, nats.CredentialsFile, nats.NKeyFile, nats.TLS.KeyFile} {
		if path != "" {
			p.Own = append(p.Own, path)
		}
	}
	for _, token := range []string{c.API.Auth.ReadTokenFile, c.API.Auth.AdminTokenFile} {
		switch {
		case token == "":
		case filepath.Base(token) == token: // searched for among the credentials of systemd
			p.Credentials = append(p.Credentials, token)
		default:
			p.Own = append(p.Own, token)
		}
	}
	return p
}
