package sqlsink

// Object exports object.
var Object = object
