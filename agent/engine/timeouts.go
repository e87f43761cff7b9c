package engine

import "time"

// maxTeardown bounds the teardown of a connector, also when its own time-out is longer.
const maxTeardown = 30 * time.Second
