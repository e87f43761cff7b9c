package standalone_test

import (
	"os/exec"
	"slices"
	"testing"

	"github.com/conduit-agent/conduit/plugins/subprocess"
)

// A command is left alone from its start until its Wait returns.
func TestOthers(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := subprocess.Start(cmd); err != nil {
		t.Fatal(err)
	}
	others := func() (all []int) {
		subprocess.Others(func() []int { return []int{cmd.Process.Pid, -7} }, func(pid int) { all = append(all, pid) })
		return all
	}
	if got := others(); !slices.Equal(got, []int{-7}) {
		t.Errorf("others are %v", got)
	}
	_ = cmd.Process.Kill()
	if err := subprocess.Wait(cmd); err == nil {
		t.Error("the command was killed, and Wait returns no error")
	}
	if got := others(); !slices.Equal(got, []int{cmd.Process.Pid, -7}) {
		t.Errorf("others are %v once it has ended", got)
	}
	if err := subprocess.Run(exec.Command("true")); err != nil {
		t.Error(err)
	}
}
