package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/conduit-agent/conduit/spec"
)

// Secrecy is the secret part of a setting, which belongs to the agent and which pipelines must not read.
type Secrecy string

// The values of Secrecy. A declaration without one is for a setting that nobody would take for a secret.
const (
	Public      Secrecy = "public"
	SecretValue Secrecy = "value" // the value is a secret
	SecretPart  Secrecy = "part"  // the value may contain a secret, such as a password in a URL
	// the value names a secret file or, as a bare name, a possible credential of systemd
	SecretFile Secrecy = "file"
)

// OfSecrecy returns the nonempty values of the settings of a kind, by key.
func (c *Config) OfSecrecy(kind Secrecy) map[string]string {
	all := map[string]string{}
	for _, s := range c.settings() {
		if value := text(s.value()); value != "" && s.Secrecy == kind {
			all[s.Key] = value
		}
	}
	return all
}

// CheckVariable returns nil if a reference may refer to an environment variable: it must not refer to one with a
// secret of the agent.
func CheckVariable(name string) error {
	for _, s := range declared() {
		if s.Env() == name && (s.Secrecy == SecretValue || s.Secrecy == SecretPart) {
			return fmt.Errorf("environment variable %s belongs to the agent itself: it sets %s", name, s.Key)
		}
	}
	return nil
}

// Secret reports whether the value must not be shown.
func (e *Effective) Secret() bool {
	s, _ := Find(e.Key)
	switch {
	case e.Value == "":
		return false
	case s.Secrecy == SecretValue:
		return true
	}
	// A path only names the place of a secret. Any other value could be a secret in the wrong setting, or contain one.
	return spec.IsSecret(e.Key, e.Value) && (filepath.Base(e.Value) == e.Value || strings.ContainsAny(e.Value, "@="))
}
