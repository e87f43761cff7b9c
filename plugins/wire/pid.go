package wire

// PID returns the id of the connector's process, which is also that of its process group.
func (c *connector) PID() int { return c.p.cmd.Process.Pid }
