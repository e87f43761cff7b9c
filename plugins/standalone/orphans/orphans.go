// Package orphans ends the processes that connectors leave behind.
package orphans
