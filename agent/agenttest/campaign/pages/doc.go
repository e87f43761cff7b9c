// Package pages executes the commands in the pages of the documentation.
package pages
