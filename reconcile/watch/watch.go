// Package watch observes a directory of pipeline files. Events of the file system are
// hints; every report is a complete scan.
package watch

// Snapshot is one complete look at the directory.
type Snapshot struct {
	// Err says why the directory could not be looked at: missing, unreadable. Files is
	// then empty, and nothing may be concluded from the absence of a file.
	Err error
	// Files are the pipeline files found, sorted by path.
	Files []File
}

// File is one pipeline file as it was found.
type File struct {
	Path string // relative to the directory, with slashes
	Data []byte
	Hash string // of Data, hex; "" with Err
	Err  error  // why it could not be read; Data is then empty
}
