// Command describe generates the descriptions of settings and of fields of the API from the comments of Go structs. The
// comment of a field is where a reader of the code looks, and its lines may be as short as others; a program cannot
// read it at run time.
//
// The descriptions of a package are a constant in its file descriptions.go, which texts.Description searches. A package
// gets the constant if code uses it: descriptions as an argument of sdk.Described in the package itself, or
// Descriptions in any other package. The constant has all structs at package level with comments on fields that have
// a name in the tag json, except structs with a tag desc. The first paragraph of a comment is the description; further
// paragraphs are for readers of the code only.
//
// "go generate ./..." runs the command for the whole repository, including its nested modules:
//
//	describe DIR
package main

import (
	"fmt"
	"os"
)

//go:generate go run . ../../..

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: describe DIR, the root of the module")
		os.Exit(2)
	}
	if err := generate(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "describe:", err)
		os.Exit(1)
	}
}
