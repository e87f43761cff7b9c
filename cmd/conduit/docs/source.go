package docs

import (
	"embed"
	"strings"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/api"
	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/schemas"
	"github.com/conduit-agent/conduit/spec"
)

// own are the pages of this directory.
//
//go:embed *.md
var own embed.FS

// others are the pages of other directories. Each embeds its own, because embedding cannot reach parent directories.
var others = map[string]embed.FS{
	"agent": agent.Documentation, "api": api.Documentation, "plugins": plugins.Documentation,
	"schemas": schemas.Documentation, "spec": spec.Documentation,
}

// readPage returns the Markdown file at a path of the repository.
func readPage(file string) ([]byte, error) {
	if name, here := strings.CutPrefix(file, "cmd/conduit/docs/"); here {
		return own.ReadFile(name)
	}
	top, below, _ := strings.Cut(file, "/")
	return others[top].ReadFile(below)
}
