// Package crash holds the tests that end a whole agent: with kill -9, SIGTERM or a power cut, at any moment, and check that
// nothing was lost.
package crash
