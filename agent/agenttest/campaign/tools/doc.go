// Package tools tests an agent with other programs: editors and other tools that save files, the shell scripts of the
// documentation, and Prometheus.
package tools
