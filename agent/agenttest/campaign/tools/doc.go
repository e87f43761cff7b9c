// Package tools holds the tests of an agent with other programs: editors and whatever else saves files, the shell scripts of
// the documentation, Prometheus.
package tools
