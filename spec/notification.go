package spec

// NotificationResult is the result of a test notification.
type NotificationResult struct {
	Target    string  `json:"target" doc:"The webhook, without its path, or the command, without its arguments."`
	Delivered bool    `json:"delivered"`
	Error     string  `json:"error,omitempty"`
	Seconds   float64 `json:"seconds" doc:"That it took."`
}
