package plugins

// Stamp adds the standard metadata to records.
var Stamp = stamp
