package engine

import "errors"

// permanentError is an error that trying again will not mend.
type permanentError struct{ error }

// Permanent marks err as one that trying again will not mend.
func Permanent(err error) error { return permanentError{err} }

// Permanent reports that the pipeline is not to be started again by itself.
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

// failedIn marks err as one of the connector or dead-letter queue with this qualified id.
func failedIn(stage string, err error) error { return stageError{error: err, stage: stage} }

// failedInProcessors marks err as one of the processors that the pipeline or connector with this qualified id declares.
func failedInProcessors(id string, err error) error {
	return stageError{error: err, stage: id, processors: true}
}

// refusedBy marks err as one of a record that the stage with this qualified id refused.
func refusedBy(stage string, err error) error {
	return stageError{error: err, stage: stage, refused: true}
}

// Stage returns the qualified id of the stage that failed, or of what declares the processors that did, and whether
// it refused a record.
func (e stageError) Stage() (id string, processors, refused bool) {
	return e.stage, e.processors, e.refused
}

// Unwrap returns the cause.
func (e stageError) Unwrap() error { return e.error }

// permanentIfRefused makes err permanent, unless it says that the connector was lost: that refuses
// nothing, and another attempt may succeed.
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
