package confine_test

import (
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/confine"
)

// TestSecretsOfTheAgent checks that settings of pipelines cannot name the files with what lets the agent in.
func TestSecretsOfTheAgent(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	var c config.Config
	c.API.TLS.KeyFile, c.API.Auth.AdminTokenFile = at("api.key"), at("token")
	c.Cluster.NATS = config.NATS{CredentialsFile: at("nats.creds"), NKeyFile: at("nats.nk"), TLS: config.NATSTLS{CertFile: at("nats.pem"), KeyFile: at("nats.key")}}
	paths := confine.New(c)
	for name, secret := range map[string]bool{"api.key": true, "token": true, "nats.creds": true, "nats.nk": true, "nats.key": true, "nats.pem": false} {
		if err := paths.Check(at(name)); (err != nil) != secret {
			t.Errorf("%s: %v, want it refused: %t", name, err, secret)
		}
	}
}

// Relative paths start where the agent works, also when another process judges them.
func TestRelativePathsOfAnAgentElsewhere(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := t.TempDir()
	c := config.Config{Dir: dir}
	c.Pipelines.AllowedPaths, c.DB.SQLite.Path = dir, filepath.Join(dir, "conduit.db")
	paths := confine.New(c)
	for path, allowed := range map[string]bool{"out.txt": true, filepath.Join(dir, "out.txt"): true, "../out.txt": false, "conduit.db": false} {
		if err := paths.Check(path); (err == nil) != allowed {
			t.Errorf("%s: %v, want it allowed: %t", path, err, allowed)
		}
	}
}
