package deadletter

import "time"

// ScanStep is how many dead letters a page reads after its time at most.
const ScanStep = scanStep

// SetScanTime sets the time of a page, until restore is called.
func SetScanTime(d time.Duration) (restore func()) {
	before := scanTime
	scanTime = d
	return func() { scanTime = before }
}
