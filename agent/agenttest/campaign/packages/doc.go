// Package packages tries what a release consists of: packages and the image through their lives, under systemd as process
// 1, builds for other machines, and that two builds are equal.
package packages
