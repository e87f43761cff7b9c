package spec

// DeadLetterQueue is the dead-letter queue: the destination of refused records, and how many of them are tolerated.
type DeadLetterQueue struct {
	Plugin              string            `json:"plugin"`
	Settings            map[string]string `json:"settings,omitempty"`
	WindowSize          int               `json:"window-size"`             // records counted; 0 tolerates all refusals
	WindowNackThreshold int               `json:"window-nack-threshold"`   // refusals tolerated within the window
	KeepOriginal        bool              `json:"keep-original,omitempty"` // dead letters keep the record as it was read
}

// Tolerant reports whether the pipeline continues when a record is refused.
func (q *DeadLetterQueue) Tolerant() bool { return q.WindowSize == 0 || q.WindowNackThreshold > 0 }

const (
	defaultWindowSize            = 1 // latest records counted
	defaultDeadLetterQueuePlugin = "builtin:log"
)

// defaultDeadLetterQueueSettings returns the default settings of a log dead-letter queue.
func defaultDeadLetterQueueSettings() map[string]string {
	return map[string]string{"level": "warn", "message": "record delivery failed"}
}
