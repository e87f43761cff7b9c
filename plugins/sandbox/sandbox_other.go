//go:build !linux || (!amd64 && !arm64)

package sandbox

import "errors"

// Version returns 0: this system has no Landlock.
func Version() int { return 0 }

func (p *Policy) become(string) error {
	return errors.New("connectors can be confined on Linux only, on amd64 and arm64 (connectors.sandbox: off runs " +
		"them without)")
}
