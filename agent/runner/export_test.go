package runner

import "log/slog"

import "github.com/conduit-agent/conduit/reconcile"

// Secrets returns the number of forms of values that a run knows.
func Secrets(r reconcile.Run) int { return r.(*run).secrets.Len() }

// Redacted returns text with the redactions of a run.
func Redacted(r reconcile.Run, text string) string { return r.(*run).secrets.Text(text) }

// Bounded returns a handler that omits excess lines about refused records.
func Bounded(h slog.Handler) slog.Handler { return newDeadLetterLog().Handler(h) }

// StateDir returns the directory of the durable state of the processors of a pipeline.
func StateDir(r *Runner, pipelineID string) string { return r.stateDir(pipelineID) }
