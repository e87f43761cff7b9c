package sqlsink

// Object returns the object in data, as writing reads it.
var Object = object
