package catalog_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/catalog"
	"github.com/conduit-agent/conduit/agent/config"
)

// No setting of pipelines can name a file with a secret of the agent, by its path or as a credential, by a link, or
// where systemd keeps it. The declarations of the settings define the secrets.
func TestSecretsOfTheAgent(t *testing.T) {
	dir, credentials := t.TempDir(), t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", credentials)
	at := func(name string) string { return filepath.Join(dir, name) }
	n := 0
	for _, s := range config.Settings() {
		if !strings.HasSuffix(s.Key, "-file") {
			continue
		}
		secret := s.Secrecy == config.SecretFile
		for _, bare := range []bool{false, true} {
			path, find := at(s.Key), at(s.Key)
			if bare {
				path, find = s.Key, filepath.Join(credentials, s.Key)
			}
			if err := errors.Join(os.WriteFile(find, []byte("x"), 0o600),
				os.Symlink(find, at(s.Key+fmt.Sprint(bare)))); err != nil {
				t.Fatal(err)
			}
			c, _, _ := config.Load(config.Sources{Flags: map[string]string{s.Key: path}})
			c.Dir, c.Pipelines.AllowedPaths = dir, dir+","+credentials
			paths := catalog.NewPaths(c)
			for _, name := range []string{find, at(s.Key + fmt.Sprint(bare))} {
				if err := paths.Check(name); (err != nil) != secret {
					t.Errorf("%s, bare %t: %s: %v, want it refused: %t", s.Key, bare, name, err, secret)
				}
			}
			if err := paths.CheckCredential(s.Key); (err != nil) != (secret && bare) {
				t.Errorf("%s, bare %t: the credential: %v", s.Key, bare, err)
			}
			n++
		}
	}
	if n < 2*15 {
		t.Errorf("%d settings that name files were tried", n/2)
	}
	var c config.Config
	for _, url := range []string{"postgres://u@h/d?sslmode=require&sslkey=" + at("k") + "&passfile=" +
		strings.ReplaceAll(at("p"), "/", "%2F"), "host=h sslkey = '" + at("k") + "' passfile=" + at("p")} {
		c.Cluster.Postgres.URL = url
		if paths := catalog.NewPaths(c); paths.Check(at("k")) == nil || paths.Check(at("p")) == nil ||
			paths.Check(at("other")) != nil {
			t.Errorf("%s does not protect its files alone: %q", url, paths.Own)
		}
	}
}

// Relative paths start in the working directory of the agent, even if another process checks them.
func TestRelativePathsOfAnAgentElsewhere(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := t.TempDir()
	c := config.Config{Dir: dir}
	c.Pipelines.AllowedPaths, c.DB.SQLite.Path = dir, filepath.Join(dir, "conduit.db")
	paths := catalog.NewPaths(c)
	for path, allowed := range map[string]bool{"out.txt": true, filepath.Join(dir, "out.txt"): true,
		"../out.txt": false, "conduit.db": false} {
		if err := paths.Check(path); (err == nil) != allowed {
			t.Errorf("%s: %v, want it allowed: %t", path, err, allowed)
		}
	}
}
