// Package ui holds the tests of the web pages of an agent in a browser.
package ui
