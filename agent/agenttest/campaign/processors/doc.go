// Package processors tries processors where that takes other programs, or minutes.
package processors
