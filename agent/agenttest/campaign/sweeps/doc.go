// Package sweeps runs scenarios of a whole agent, and in each run kills it at one call of the kernel that
// changes its files, or has that call fail. Afterwards all that was acknowledged is there.
package sweeps
