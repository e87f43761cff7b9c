// Package crash tests that an agent loses nothing when it ends at any moment, by kill -9, SIGTERM or a power cut.
package crash
