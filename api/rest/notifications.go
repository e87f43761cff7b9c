package rest

// NotificationResult is what became of a notification that was sent to try it.
type NotificationResult struct {
	Target    string  `json:"target" doc:"The webhook, without its path, or the command, without its arguments."`
	Delivered bool    `json:"delivered"`
	Error     string  `json:"error,omitempty"`
	Seconds   float64 `json:"seconds" doc:"That it took."`
}
