package catalog

// Environment returns what plugins inherit of an environment.
func Environment(environ []string) []string { return environment(environ) }
