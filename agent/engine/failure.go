package engine

import "errors"

// permanentError is an error that a retry cannot fix.
type permanentError struct{ error }

// Permanent marks err as an error that a retry cannot fix.
func Permanent(err error) error { return permanentError{err} }

// Permanent reports that the pipeline must not be restarted automatically.
func (permanentError) Permanent() bool { return true }

// Unwrap returns the cause.
func (e permanentError) Unwrap() error { return e.error }

// stageError is an error with the pipeline stage that caused it.
type stageError struct {
	error
	stage      string
	processors bool
	refused    bool
}

// failedIn marks err as an error of the connector or dead-letter queue with this qualified id.
func failedIn(stage string, err error) error { return stageError{error: err, stage: stage} }

// failedInProcessors marks err as an error of a processor that the pipeline or connector with this qualified id
// declares.
func failedInProcessors(id string, err error) error {
	return stageError{error: err, stage: id, processors: true}
}

// refusedBy marks err as the error of a record that the stage with this qualified id refused.
func refusedBy(stage string, err error) error {
	return stageError{error: err, stage: stage, refused: true}
}

// Stage returns the qualified id of the stage that failed, or of the pipeline or connector that declares the failed
// processors, and whether the stage refused a record.
func (e stageError) Stage() (id string, processors, refused bool) {
	return e.stage, e.processors, e.refused
}

// Unwrap returns the cause.
func (e stageError) Unwrap() error { return e.error }

// permanentIfRefused makes err permanent, unless err says that the connector was lost: then nothing was refused, and a
// retry may succeed.
func permanentIfRefused(err error) error {
	if isLost(err) {
		return err
	}
	return Permanent(err)
}

// isLost reports whether err says that a connector was lost.
func isLost(err error) bool {
	var lost interface{ Lost() bool }
	return errors.As(err, &lost) && lost.Lost()
}
