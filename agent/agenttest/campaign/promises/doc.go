// Package promises checks the documented promises on the built binary, with one script for each in testdata/script.
package promises
