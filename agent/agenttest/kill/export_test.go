package kill

// StartAgent starts an agent in dir in a process of its own, and returns what kills it.
func StartAgent(dir string) (stop func(), err error) {
	p := &process{dir: dir}
	return p.kill, p.start()
}
