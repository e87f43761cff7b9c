// Package e2e holds the end-to-end tests: each runs a whole agent in the test's process or in a separate one, and
// checks its output.
package e2e
