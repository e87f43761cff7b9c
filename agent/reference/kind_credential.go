package reference

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/texts"
)

var credentialName = texts.Regexp(`^[A-Za-z0-9._-]+$`)

// Credential declares references to credentials passed by systemd.
func Credential() spec.ReferenceKind {
	return spec.ReferenceKind{
		Name:        "credential",
		Syntax:      "${credential:name}",
		Description: "the systemd credential, without its last newline",
		Check: func(name string) error {
			if !credentialName().MatchString(name) {
				return errors.New("a credential has a name of letters, digits, dots, _ and -")
			}
			return nil
		},
		Allowed: func(name string, access spec.ReferenceAccess) error {
			if access.Credential == nil {
				return nil
			}
			return access.Credential(name)
		},
		Read: func(_ context.Context, name string, _ spec.ReferenceAccess) (string, error) {
			return ReadCredential(name)
		},
		File: func(name string) string { return filepath.Join(os.Getenv(credentialsVariable), name) },
	}
}

// credentialsVariable names the directory of the credentials passed by systemd.
const credentialsVariable = "CREDENTIALS_DIRECTORY"

// HasCredentials reports whether systemd passed credentials (LoadCredential=).
func HasCredentials() bool { return os.Getenv(credentialsVariable) != "" }

// ReadCredential returns a credential passed by systemd.
func ReadCredential(name string) (string, error) {
	if !HasCredentials() {
		return "", errors.New("there are no credentials: set LoadCredential= in the systemd unit")
	}
	root, err := os.OpenRoot(os.Getenv(credentialsVariable))
	if err != nil {
		return "", fmt.Errorf("cannot open the credentials directory: %w", err)
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err != nil {
		return "", err
	}
	b, err := watch.ReadFile(name, info, root.OpenFile)
	return string(b), err
}
