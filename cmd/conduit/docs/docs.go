// Package docs makes the site of the documentation of this version: of the pages of the repository,
// and of the commands, settings, schemas and plugins themselves. The agent serves it below /docs/,
// and 'conduit docs' writes it. Nothing in it is requested from elsewhere.
package docs

import (
	"sync"

	"github.com/peterbourgon/ff/v3/ffcli"
)

// Of returns a function that makes the site of the commands below root, once, when it is called first. Usage returns
// the help of a command.
func Of(root *ffcli.Command, version string, usage func(*ffcli.Command) string) func() (map[string][]byte, error) {
	return sync.OnceValues(func() (map[string][]byte, error) { return build(root, version, usage) })
}
