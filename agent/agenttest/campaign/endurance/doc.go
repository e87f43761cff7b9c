// Package endurance holds the tests of what an agent needs: its memory limit with records of many megabytes, resources that
// stay flat however long it runs, and bounds of what a pipeline may ask for.
package endurance
