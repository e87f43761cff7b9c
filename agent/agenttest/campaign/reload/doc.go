// Package reload tests hot reload with many changes under load, with file systems that are mounted and unmounted, and
// with agents that are killed meanwhile.
package reload
