package config_test

import (
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/conduit-agent/conduit/agent/config"
)

// suspicious are words in the keys of settings that may be, or name, secrets.
var suspicious = regexp.MustCompile(
	`file|url|secret|token|password|key|credential|connection|auth|socket|command|cert|run$`)

// secrecy lists the secret part of every setting with a suspicious key. A new setting needs an entry.
var secrecy = map[string]config.Secrecy{
	"api.auth.read-token-file": config.SecretFile, "api.auth.admin-token-file": config.SecretFile,
	"api.tls.key-file":    config.SecretFile,
	"api.client.key-file": config.SecretFile, "cluster.nats.credentials-file": config.SecretFile,
	"cluster.nats.nkey-file":    config.SecretFile,
	"cluster.nats.tls.key-file": config.SecretFile, "cluster.postgres.password-file": config.SecretFile,
	"notify.webhook.secret-file": config.SecretFile,

	"schema-registry.confluent.connection-string":   config.SecretValue,
	"schema-registry.confluent.auth.basic.password": config.SecretValue,
	"schema-registry.confluent.auth.bearer.token":   config.SecretValue, "cluster.nats.url": config.SecretValue,
	"cluster.postgres.url": config.SecretValue,
	"notify.webhook.url":   config.SecretValue, "notify.command.run": config.SecretValue,

	"api.tls.cert-file": config.Public, "api.tls.client-ca-file": config.Public, "api.client.ca-file": config.Public,
	"api.client.cert-file":     config.Public,
	"cluster.nats.tls.ca-file": config.Public, "cluster.nats.tls.cert-file": config.Public,
	"api.http.socket": config.Public, "api.http.socket-mode": config.Public, "api.http.socket-group": config.Public,
	"api.allow-unauthenticated":                     config.Public,
	"schema-registry.confluent.auth.type":           config.Public,
	"schema-registry.confluent.auth.basic.username": config.Public,
	"processors.egress.secret-refs":                 config.Public, "db.sqlite.network-filesystem": config.Public,
	"pipelines.status-files": config.Public,
	"notify.command.timeout": config.Public,
}

func TestSecrecyIsDecided(t *testing.T) {
	for _, s := range config.Settings() {
		if want, decided := secrecy[s.Key]; !decided && suspicious.MatchString(s.Key) {
			t.Errorf("decide in this test, and in Setting.Secrecy, what of %s is secret; it is taken for %q", s.Key,
				s.Secrecy())
		} else if decided && s.Secrecy() != want {
			t.Errorf("%s is %q, want %q", s.Key, s.Secrecy(), want)
		}
	}
	for key := range secrecy {
		if _, ok := config.Find(key); !ok {
			t.Errorf("there is no setting %s", key)
		}
	}
}

// Every setting with a secret has a value in Config under its key.
func TestOfSecrecy(t *testing.T) {
	for _, kind := range []config.Secrecy{config.SecretFile, config.SecretValue} {
		flags, want := map[string]string{}, []string{}
		for key, k := range secrecy {
			if k == kind {
				flags[key] = "https://user@" + key
				want = append(want, key)
			}
		}
		if kind == config.SecretValue {
			flags["notify.command.run"] = `["notify.command.run"]`
		}
		c, _, err := config.Load(config.Sources{Flags: flags})
		if c.Effective == nil {
			t.Fatal(err)
		}
		got := c.OfSecrecy(kind)
		slices.Sort(want)
		if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, want) {
			t.Errorf("settings of kind %q: %q, want %q", kind, keys, want)
		}
		for key, value := range got {
			if value != flags[key] {
				t.Errorf("%s is %q", key, value)
			}
		}
	}
}

func TestCheckVariable(t *testing.T) {
	for variable, own := range map[string]bool{
		"CONDUIT_CLUSTER_POSTGRES_URL": true, "CONDUIT_SCHEMA_REGISTRY_CONFLUENT_AUTH_BASIC_PASSWORD": true,
		"CONDUIT_NOTIFY_COMMAND_RUN": true,
		"CONDUIT_CLUSTER_NAME":       false, "CLUSTER_POSTGRES_URL": false,
		"CONDUIT_CLUSTER_POSTGRES_PASSWORD_FILE": false,
		"HOME":                                   false,
	} {
		if err := config.CheckVariable(variable); (err != nil) != own {
			t.Errorf("%s: %v", variable, err)
		}
	}
}
