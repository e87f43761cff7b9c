package runner

import "github.com/conduit-agent/conduit/reconcile"

// Secrets returns how many forms of values a run knows.
func Secrets(r reconcile.Run) int { return r.(*run).secrets.Len() }

// Redacted returns text as a run shows it.
func Redacted(r reconcile.Run, text string) string { return r.(*run).secrets.Text(text) }
