package tools

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"

	"github.com/conduit-agent/conduit/cmd/conduit/cli"
	"github.com/conduit-agent/conduit/plugins"
)

// pythonDir is the directory of the example in Python, and protoDir that of the messages of the protocol.
const (
	pythonDir = "example/python"
	protoDir  = "wire/proto"
)

// WritePython writes a connector in Python with this name, the messages of the protocol, and a README to dir. It
// creates dir if necessary, and overwrites nothing.
func WritePython(dir, name string) error {
	files, err := pythonFiles(name)
	if err != nil {
		return fmt.Errorf("cannot create the files of connector %s: %w", name, err)
	}
	return writeFiles(dir, files)
}

func pythonFiles(name string) (map[string][]byte, error) {
	program, err := plugins.PythonExample.ReadFile(pythonDir + "/connector.py")
	if err != nil {
		return nil, err
	}
	page, err := plugins.Documentation.ReadFile(pythonDir + "/README.md")
	if err != nil {
		return nil, err
	}
	const example = "python-lines"
	files := map[string][]byte{
		"connector.py": bytes.ReplaceAll(program, []byte(example), []byte(name)),
		"README.md": []byte(strings.NewReplacer(example, name, "](../../wire/proto)", "](proto)", "](../../sdk/README.md)",
			"](https://github.com/conduit-agent/conduit/blob/main/plugins/sdk/README.md)").Replace(string(page))),
	}
	err = fs.WalkDir(plugins.PythonExample, protoDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files["proto"+strings.TrimPrefix(path, protoDir)], err = plugins.PythonExample.ReadFile(path)
		return err
	})
	return files, err
}

// checkPython refuses flags of 'conduit plugins init' that are for Go.
func checkPython(processor bool, replace, modules string) error {
	if processor || replace != "" || modules != "" {
		return cli.Invalidf("--python writes a connector in Python: omit --processor, --replace and --modules, which are " +
			"for Go")
	}
	return nil
}
