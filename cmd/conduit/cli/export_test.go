package cli

// Promptly limits the answers to questions.
var Promptly = promptly
