package javascript

// SetMaxNativeDepth sets the bound for nested calls of built-in functions until restore is called.
func SetMaxNativeDepth(n int) (restore func()) {
	before := maxNativeDepth
	maxNativeDepth = n
	return func() { maxNativeDepth = before }
}

// Compile compiles a script.
func Compile(text string) error {
	_, err := compile("script", text)
	return err
}
