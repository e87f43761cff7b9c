package isolate

// TextOf describes a backlog for people.
var TextOf = textOf
