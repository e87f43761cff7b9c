package standalone

import (
	"crypto/sha256"
	"io"
	"os"
	"time"
)

// writeDebounce is the time without changes after which a file counts as completely written.
const writeDebounce = 300 * time.Millisecond

// sum returns the SHA-256 of a file's content.
func sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return string(h.Sum(nil)), nil
}
