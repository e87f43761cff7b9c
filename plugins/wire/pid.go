package wire

// PID returns the id of the connector's process, which is also that of its process
// group, or 0 when it has none of its own.
func (c *connector) PID() int { return c.p.runner.pid() }
