// Command connector is a built-in connector as an executable: the one that its file is
// named after, as in conduit-connector-file.
package main

import (
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/wire"
)

func main() {
	name := strings.TrimPrefix(filepath.Base(os.Args[0]), "conduit-connector-")
	for _, c := range builtin.All() {
		if c.Name == name {
			wire.Serve(c)
			return
		}
	}
	log.Fatalf("there is no built-in connector %q", name)
}
