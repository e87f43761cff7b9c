package deadletter

import "time"

// ScanStep is the maximum number of dead letters that a page reads after its time is over.
const ScanStep = scanStep

// SetScanTime sets the time of a page, until restore is called.
func SetScanTime(d time.Duration) (restore func()) {
	before := scanTime
	scanTime = d
	return func() { scanTime = before }
}
