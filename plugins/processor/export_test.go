package processor

import "time"

// CheckEvery sets the interval at which the chain checks whether its processors make progress. It must be called before
// any other method.
func (c *Chain) CheckEvery(interval time.Duration) { c.guard.interval = interval }
