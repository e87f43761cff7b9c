package main

import "fmt"

// settings of a generator at full speed.
const (
	fast      = "rate: 0, " + twoFields
	twoFields = "format.type: structured, format.options.id: int, format.options.name: string" + noSchemas
	noSchemas = ", sdk.schema.extract.payload.enabled: false, sdk.schema.extract.key.enabled: false"
)

// pipeline returns the file of pipeline n; more is YAML at the pipeline's level.
func pipeline(n int, source, destination string, more ...string) string {
	text := fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p%d
    status: running
    connectors:%s%s
`, n, source, destination)
	for _, m := range more {
		text += "    " + m + "\n"
	}
	return text
}

func source(plugin, settings string) string { return connector("src", "source", plugin, settings) }

func destination(plugin, settings string) string {
	return connector("dst", "destination", plugin, settings)
}

func connector(id, kind, plugin, settings string) string {
	return fmt.Sprintf(`
      - id: %s
        type: %s
        plugin: %s
        settings: {%s}`, id, kind, plugin, settings)
}

// toFile is the destination of pipeline n.
func toFile(kind string, n int) string {
	return destination(kind+":file", "path: "+outputOf(n))
}

// outputOf is the file that pipeline n writes.
func outputOf(n int) string { return fmt.Sprintf("output%d.jsonl", n) }
