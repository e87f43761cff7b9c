// Package binary tests the command line of the built binary: scripts with agents, in testdata/script, and tests that
// need other programs.
package binary
