package s3

// SetMostKnown sets how many objects a window knows, and returns what sets it back.
func SetMostKnown(n int) (restore func()) {
	former := mostKnown
	mostKnown = n
	return func() { mostKnown = former }
}
