package prove

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// agentProcess is the agent under test.
type agentProcess struct {
	cmd  *exec.Cmd
	log  *os.File
	own  int // the process of the agent, 0 for that of cmd
	gone chan struct{}
	once sync.Once
	err  error // set before gone is closed
}

// start starts the agent, sometimes with clocks that jumped while it was down.
func (c *campaign) start() (*agentProcess, error) {
	log, err := os.OpenFile(filepath.Join(c.dir, "agent.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the log of the agent: %w", err)
	}
	args, jumped := c.Command, c.clocks && c.report.Faults.Terminations == 0 && c.random.IntN(4) == 0
	if jumped {
		c.report.Faults.ClockJumps++
		args = append(withClocks(c.random.Int64N(1<<25)), args...)
	}
	a := &agentProcess{cmd: exec.Command(args[0], args[1:]...), log: log, gone: make(chan struct{})}
	a.cmd.Dir, a.cmd.Stdout, a.cmd.Stderr = c.dir, log, log
	a.cmd.SysProcAttr = withParent()
	a.cmd.Env = c.environment()
	if err := a.cmd.Start(); err != nil {
		log.Close()
		return nil, fmt.Errorf("cannot start the agent: %w", err)
	}
	go func() {
		a.err = a.cmd.Wait()
		close(a.gone)
	}()
	if jumped {
		a.findOwn()
	}
	return a, nil
}

// environment returns the environment of the agent: all its settings are those of the proof.
func (c *campaign) environment() (env []string) {
	for _, one := range c.Env {
		if !strings.HasPrefix(one, "CONDUIT_") {
			env = append(env, one)
		}
	}
	return append(env,
		"CONDUIT_DB_SQLITE_PATH="+filepath.Join(c.dir, "state", "conduit.db"),
		"CONDUIT_PIPELINES_PATH="+filepath.Join(c.dir, "pipelines"),
		"CONDUIT_CONNECTORS_PATH="+filepath.Join(c.dir, "connectors"),
		"CONDUIT_PROCESSORS_PATH="+c.Processors,
		"CONDUIT_PIPELINES_ERROR_RECOVERY_MIN_DELAY=50ms",
		"CONDUIT_PIPELINES_ERROR_RECOVERY_MAX_DELAY=1s",
		"CONDUIT_API_ENABLED=false",
		"CONDUIT_LOG_FORMAT=json",
	)
}

// findOwn finds the process of the agent among the children of the one that set its clocks.
func (a *agentProcess) findOwn() {
	for range 1000 {
		if all := childrenOf(a.cmd.Process.Pid); len(all) > 0 {
			a.own = all[0]
			return
		}
		if a.ended() {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (a *agentProcess) pid() int {
	if a.own > 0 {
		return a.own
	}
	return a.cmd.Process.Pid
}

func (a *agentProcess) ended() bool {
	select {
	case <-a.gone:
		return true
	default:
		return false
	}
}

// kill kills the agent, unless it has ended, and waits for its end.
func (a *agentProcess) kill() {
	a.once.Do(func() {
		if !a.ended() {
			_ = syscall.Kill(a.pid(), syscall.SIGKILL)
		}
		<-a.gone
		a.log.Close()
	})
}

// terminate ends the agent in the regular way.
func (a *agentProcess) terminate() error {
	defer a.kill()
	if err := syscall.Kill(a.pid(), syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-a.gone:
		return a.err
	case <-time.After(endTimeout):
		return fmt.Errorf("it still runs after %v", endTimeout)
	}
}
