package catalog

// Environment returns the variables of an environment that plugins inherit by connectors.environment.
func Environment(environ []string, setting string) []string { return environment(environ, setting) }
