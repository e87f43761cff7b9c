package file

// Values of whence with which Seek finds holes, which read as NUL bytes and take no space on disk.
const (
	seekData = 3
	seekHole = 4
)
