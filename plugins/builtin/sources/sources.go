// Package sources has what several built-in sources need: queues between a goroutine and Read, positions for systems that have
// none, pauses that end together, and a limit of accepted connections.
package sources
