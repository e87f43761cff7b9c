package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Secrecy is the secret part of a setting, which belongs to the agent and which pipelines must not read.
type Secrecy string

// The values of Secrecy.
const (
	Public      Secrecy = "public"
	SecretValue Secrecy = "value" // the value is a secret, or may hold one
	// the value names a secret file or, as a bare name, a possible credential of systemd
	SecretFile Secrecy = "file"
)

// secretValues are the settings that are, or may contain, a secret: a password in a URL or an argument, a secret
// address.
var secretValues = []string{
	"schema-registry.confluent.connection-string", "schema-registry.confluent.auth.basic.password",
	"schema-registry.confluent.auth.bearer.token",
	"cluster.nats.url", "cluster.postgres.url", "notify.webhook.url", "notify.command.run",
}

// Secrecy returns the secret part of the setting. A setting that names a file is SecretFile, unless the file holds
// certificates, which are public. A new setting of a file is therefore secret by default.
func (s *Setting) Secrecy() Secrecy {
	switch {
	case slices.Contains(secretValues, s.Key):
		return SecretValue
	case strings.HasSuffix(s.Key, "cert-file"), strings.HasSuffix(s.Key, "ca-file"):
		return Public
	case strings.HasSuffix(s.Key, "-file"):
		return SecretFile
	}
	return Public
}

// OfSecrecy returns the nonempty values of the settings of a kind, by key.
func (c *Config) OfSecrecy(kind Secrecy) map[string]string {
	all := map[string]string{}
	collect(reflect.ValueOf(c).Elem(), "", func(key, value string) {
		if s := (Setting{Key: key}); value != "" && s.Secrecy() == kind {
			all[key] = value
		}
	})
	return all
}

// collect calls f for every setting that is text.
func collect(v reflect.Value, prefix string, f func(key, value string)) {
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("koanf")
		switch field := v.Field(i); {
		case name == "" || name == "-":
		case field.Kind() == reflect.Struct:
			collect(field, prefix+name+".", f)
		case field.Kind() == reflect.String:
			f(prefix+name, field.String())
		}
	}
}

// CheckVariable returns nil if a reference may refer to an environment variable: it must not refer to one with a
// secret of the agent.
func CheckVariable(name string) error {
	for _, key := range secretValues {
		if envName(key) == name {
			return fmt.Errorf("environment variable %s belongs to the agent itself: it sets %s", name, key)
		}
	}
	return nil
}
