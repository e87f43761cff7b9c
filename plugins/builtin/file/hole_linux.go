package file

// Values of whence for Seek to find holes, which read as NUL bytes and use no disk space.
const (
	seekData = 3
	seekHole = 4
)
