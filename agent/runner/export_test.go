package runner

import "log/slog"

import "github.com/conduit-agent/conduit/reconcile"

// Secrets returns how many forms of values a run knows.
func Secrets(r reconcile.Run) int { return r.(*run).secrets.Len() }

// Redacted returns text as a run shows it.
func Redacted(r reconcile.Run, text string) string { return r.(*run).secrets.Text(text) }

// Bounded returns a handler that leaves out what is too much about refused records.
func Bounded(h slog.Handler) slog.Handler { return newRefusals().Handler(h) }

// StateDir returns where the processors of a pipeline keep what survives a restart.
func StateDir(r *Runner, pipelineID string) string { return r.stateDir(pipelineID) }
