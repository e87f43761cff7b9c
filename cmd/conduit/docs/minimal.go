//go:build minimal

package docs

import (
	"errors"

	"github.com/peterbourgon/ff/v3/ffcli"
)

func build(*ffcli.Command, string, func(*ffcli.Command) string) (map[string][]byte, error) {
	return nil, errors.New("this build has no documentation: it was built with -tags minimal; 'conduit help' and 'conduit man' are there")
}
