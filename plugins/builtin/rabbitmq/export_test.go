package rabbitmq

// RecordOf is recordOf.
var RecordOf = recordOf
