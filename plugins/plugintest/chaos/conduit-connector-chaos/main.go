// Command conduit-connector-chaos is a connector that misbehaves on command.
package main

import "github.com/conduit-agent/conduit/plugins/plugintest/chaos"

func main() { chaos.Main() }
