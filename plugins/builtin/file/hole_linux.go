package file

// Where Seek goes for holes, which read as NUL bytes and take no space on the disk.
const (
	seekData = 3
	seekHole = 4
)
