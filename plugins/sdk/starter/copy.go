package starter

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
)

//go:generate go run gather.go

// packedSDK is the agent's module, reduced to the packages that plugins import.
//
//go:embed sdk.tar.zst
var packedSDK []byte

// sdkFiles returns the files of packedSDK, by name.
var sdkFiles = sync.OnceValues(func() (map[string][]byte, error) { return unpack(packedSDK) })

// WriteSDK writes the SDK to dir as a separate module, and overwrites nothing.
func WriteSDK(dir string) error {
	files, err := sdkFiles()
	if err != nil {
		return fmt.Errorf("cannot read the SDK: %w", err)
	}
	return write(dir, files)
}

// module is a version of a module.
type module struct{ path, version string }

// requirements returns the modules that the SDK requires.
func requirements() (all []module, err error) {
	files, err := sdkFiles()
	if err != nil {
		return nil, fmt.Errorf("cannot read the SDK: %w", err)
	}
	for line := range strings.Lines(string(files["go.mod"])) {
		if fields := strings.Fields(line); strings.HasPrefix(line, "\t") && len(fields) > 1 { // in a block
			all = append(all, module{fields[0], fields[1]})
		}
	}
	return all, nil
}

// ErrModules is wrapped by the errors of an unusable archive of modules.
var ErrModules = errors.New("it is no archive of modules for this version of conduit")

// vendored returns the files of an archive that holds the directory vendor of a plugin. It refuses an archive that was
// made for other versions than the required ones.
func vendored(path string, required []module) (map[string][]byte, error) {
	archive, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read modules: %w: %w", ErrModules, err)
	}
	files, err := unpack(archive)
	if err != nil {
		return nil, fmt.Errorf("cannot read modules from %s: %w: %w", path, ErrModules, err)
	}
	list := string(files["vendor/modules.txt"])
	for _, m := range required {
		line := "# " + m.path + " " + m.version
		if !strings.Contains(list, line+"\n") && !strings.Contains(list, line+" => ./sdk\n") {
			return nil, fmt.Errorf("cannot use modules from %s: %w: %s %s is not among them", path, ErrModules, m.path, m.version)
		}
	}
	return files, nil
}
