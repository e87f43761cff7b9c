//go:build !linux

package wait

import "time"

var processStart = time.Now()

func threadTime() time.Duration { return time.Since(processStart) }

func processTime() time.Duration { return time.Since(processStart) }
