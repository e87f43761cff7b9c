// Package docs generates the documentation site of this version from the pages of the repository, and from the
// commands, settings, schemas and plugins themselves. The agent serves it below /docs/, and 'conduit docs' writes it.
// The site requests nothing from other hosts.
package docs

import (
	"sync"

	"github.com/peterbourgon/ff/v3/ffcli"
)

// Site returns a function that generates the site for the commands below root, once, on the first call. Usage returns
// the help of a command.
func Site(root *ffcli.Command, version string, usage func(*ffcli.Command) string) func() (map[string][]byte, error) {
	return sync.OnceValues(func() (map[string][]byte, error) { return build(root, version, usage) })
}
