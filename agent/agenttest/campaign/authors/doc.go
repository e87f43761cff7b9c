// Package authors follows the steps of the authors of connectors and processors: starting from a template, it builds
// and tests a plugin with and without a network, and a plugin in another language.
package authors
