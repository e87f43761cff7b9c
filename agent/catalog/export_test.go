package catalog

// Environment returns what plugins get of an environment by connectors.environment.
func Environment(environ []string, setting string) []string { return environment(environ, setting) }
