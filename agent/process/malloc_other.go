//go:build !linux || !cgo

package process

func returnLargeBlocks() {}
