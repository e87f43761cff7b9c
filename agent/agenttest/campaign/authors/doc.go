// Package authors does what authors of connectors and processors do: they start from a template, build, and test, with a network and
// without, and write in another language.
package authors
