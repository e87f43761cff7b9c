// Package binary tries the command line of the binary as it is built: scripts with agents, in testdata/script, and what
// needs other programs.
package binary
