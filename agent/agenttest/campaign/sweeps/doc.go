// Package sweeps runs scenarios of a whole agent. In each run it kills the agent at one of the system calls that change
// its files, or makes that call fail. Afterwards all acknowledged data exists.
package sweeps
