// Package processor runs chains of processors, lists the built-in processors, and checks the processors that pipelines
// declare.
package processor
