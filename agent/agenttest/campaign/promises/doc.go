// Package promises shows, on the binary as it is built, that the agent keeps what it promises: one script each, in
// testdata/script.
package promises
