// Package pages holds the tests that execute what the pages of the documentation ask a reader
// to type.
package pages
