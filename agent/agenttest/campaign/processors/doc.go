// Package processors contains the tests of processors that need other programs, or minutes.
package processors
