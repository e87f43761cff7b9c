// Command connector is a connector as an executable. The file name selects the connector, as in
// conduit-connector-file: a built-in one, or one for measurements.
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
