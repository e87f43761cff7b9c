// Package sources provides common parts of several built-in sources: queues between a goroutine and Read, positions for
// systems without their own, pauses that end at common ticks, and a limit of accepted connections.
package sources
