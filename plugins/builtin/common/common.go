// Package common has what several built-in connectors need: the decoding of settings, TLS, pauses between attempts,
// ids that recognize repeated records, and for sources queues, positions for systems without their own, pauses that end
// at common ticks, and a limit of accepted connections.
package common
