// Package processor runs chains of processors, knows those that are compiled in, and
// checks what pipelines declare of them.
package processor
