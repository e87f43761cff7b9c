package catalog

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/spec/texts"
)

// NewPaths returns the files that settings of pipelines may name on the machine of an agent with these settings.
func NewPaths(c config.Config) *Paths {
	p := &Paths{Store: c.DB.SQLite.Path, Dir: c.Dir}
	for path := range strings.SplitSeq(c.Pipelines.AllowedPaths, ",") {
		if path = strings.TrimSpace(path); path != "" {
			p.Allowed = append(p.Allowed, path)
		}
	}
	for _, path := range []string{c.File, c.API.HTTP.Socket} {
		if path != "" {
			p.Own = append(p.Own, path)
		}
	}
	for _, path := range c.OfSecrecy(config.SecretFile) {
		p.Own = append(p.Own, path)
		if filepath.Base(path) == path { // its file may be among the credentials of systemd
			p.Credentials = append(p.Credentials, path)
			if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" {
				p.Own = append(p.Own, filepath.Join(dir, path))
			}
		}
	}
	p.Own = append(p.Own, filesOfSettings(c.Cluster.Postgres.URL)...)
	return p
}

// fileParameter matches the parameters of a PostgreSQL URL, or of key=value pairs, that name secret files.
var fileParameter = texts.Regexp(`(?:^|[\s?&])(?:sslkey|passfile)\s*=\s*(?:'([^']+)'|([^\s&]+))`)

// filesOfSettings returns the secret files that the address of a PostgreSQL server names.
func filesOfSettings(address string) (paths []string) {
	for _, m := range fileParameter().FindAllStringSubmatch(address, -1) {
		path := m[1] + m[2]
		paths = append(paths, path)
		if decoded, err := url.PathUnescape(path); err == nil && decoded != path {
			paths = append(paths, decoded)
		}
	}
	return paths
}
