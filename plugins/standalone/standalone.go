// Package standalone runs connector executables, each in its own process, and drives them over the connector protocol.
//
// The Client of go-plugin starts the executables, shakes hands, dials, reads their output and ends them, through a
// runner of this package. This package replaces parts of go-plugin (v1.8.0) for five reasons:
//
//   - It neither gives a plugin a process group nor a parent-death signal, and it waits for
//     the end of output that a grandchild may hold open for ever: so the runner.
//   - It panics on a certificate that it did not ask for, and puts a first line of any
//     length into an error: so the runner passes on five fields of a bounded line.
//   - Its reader of log lines panics when @message, @level or @timestamp is no string, and
//     rounds integers: so its logger is off and the lines go to ours.
//   - It asks a plugin to exit without a deadline, and waits two seconds for one that does
//     not know the request: so an interceptor.
//   - Its broker remembers whatever a plugin announces: so the stream is never opened.
package standalone

// defaultMaxReceive limits a message of a plugin, in bytes. Batches of large records fit, and a faulty plugin cannot
// use all memory at once.
const defaultMaxReceive = 16 << 20

// Limits of a batch of records from a plugin, regardless of its size on the wire. The remaining records of a message
// arrive in further batches.
const (
	maxRecords    = 8192
	decodedFactor = 4 // memory of the records relative to the maximum message
	minMemory     = 1 << 20
)
