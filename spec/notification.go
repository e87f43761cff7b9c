package spec

// NotificationResult is the result of a test notification.
type NotificationResult struct {
	Target    string  `json:"target" doc:"Webhook without its path, or command without its arguments."`
	Delivered bool    `json:"delivered"`
	Error     string  `json:"error,omitempty"`
	Seconds   float64 `json:"seconds" doc:"Duration in seconds."`
}
