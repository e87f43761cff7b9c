// Package authors does the work of the authors of connectors and processors: starting from a template, it builds and
// tests a plugin with and without a network, and one in another language.
package authors
