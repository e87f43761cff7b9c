// Command connector is a connector as an executable: the one that its file is named
// after, as in conduit-connector-file. It is a built-in one, or one that helps to measure.
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
	for _, c := range append(builtin.All(), refusing(), timed()) {
		if c.Name == name {
			wire.Serve(c)
			return
		}
	}
	log.Fatalf("there is no connector %q", name)
}
