package plugins

// Stamp gives records the metadata that every record has.
var Stamp = stamp
