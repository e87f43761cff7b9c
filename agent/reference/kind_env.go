package reference

import (
	"context"
	"os"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/spec"
)

// Env declares references to environment variables, except those with secrets of the agent.
func Env() spec.ReferenceKind {
	return spec.ReferenceKind{
		Name:        spec.EnvReference,
		Syntax:      "${VAR}, ${VAR:-default}, ${VAR:?message}",
		Description: "the environment variable; an error when it is not set",
		Early:       true,
		Read: func(_ context.Context, name string, _ spec.ReferenceAccess) (string, error) {
			if err := config.CheckVariable(name); err != nil {
				return "", err
			}
			value, ok := os.LookupEnv(name)
			if !ok {
				return "", spec.ErrUnset
			}
			return value, nil
		},
	}
}
