package wait

import (
	"bytes"
	"runtime"
)

// Goroutines returns the number of goroutines that execute a function, or wait in it. Its name is as in a stack trace,
// such as "guard.(*Limiter).await", and may lack the beginning. With For, a test waits until work has come to a place
// where it stops.
func Goroutines(function string) (n int) {
	stacks := make([]byte, 1<<20)
	for {
		size := runtime.Stack(stacks, true)
		if size < len(stacks) {
			stacks = stacks[:size]
			break
		}
		stacks = make([]byte, 2*len(stacks))
	}
	for stack := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		for line := range bytes.Lines(stack) {
			if !bytes.HasPrefix(line, []byte("created by ")) && bytes.Contains(line, []byte(function+"(")) {
				n++
				break
			}
		}
	}
	return n
}
