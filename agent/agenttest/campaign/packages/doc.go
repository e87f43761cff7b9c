// Package packages tests the artifacts of a release: it installs, updates and removes the packages with systemd as
// process 1, runs the container image, starts builds for other machines, and checks that builds are reproducible.
package packages
