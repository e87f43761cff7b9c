package kill

import "time"

// StartAgent starts an agent in dir in a process of its own. stop kills it, and returns the CPU time that it took.
func StartAgent(dir string) (stop func() time.Duration, err error) {
	p := &process{dir: dir}
	return func() time.Duration {
		p.kill()
		return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
	}, p.start()
}
