// Package e2e holds the end-to-end tests: each runs a whole agent in the test's process,
// or in one of its own, and checks what comes out of it.
package e2e
