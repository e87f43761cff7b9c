package log

// Encoded is the value of the attribute "record".
type Encoded = encoded
