package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// rival is a program that moves data. Packages of Debian are taken from the system, or unpacked into the cache
// directory: those of rsyslog and of syslog-ng cannot be installed beside each other. Go programs are built there.
type rival struct {
	name string // of the executable
	// goPackage is a package of the Go module at version, with build tags; "" for a package of Debian.
	goPackage, module, version, tags string
	debian                           string // packages, separated by spaces
	// variant distinguishes executables of the same version with other tags or packages.
	variant string
	// arguments returns the arguments for a configuration file in dir. root is the directory of an unpacked package.
	arguments func(root, dir, config string) []string
	// run replaces arguments and the search for the executable.
	run func(dir, config string) ([]string, error)
}

var (
	rsyslog = rival{name: "rsyslogd", debian: "rsyslog", arguments: func(root, dir, config string) []string {
		args := []string{"-n", "-f", config, "-i", filepath.Join(dir, "pid")}
		if root != "" {
			args = append(args, "-M", first(filepath.Join(root, "usr/lib/*/rsyslog")))
		}
		return args
	}}
	syslogNG = rival{name: "syslog-ng", debian: "syslog-ng-core", arguments: func(root, dir, config string) []string {
		args := []string{"--foreground", "--no-caps", "--cfgfile=" + config, "--pidfile=" + filepath.Join(dir, "pid"),
			"--control=" + filepath.Join(dir, "control"), "--persist-file=" + filepath.Join(dir, "persist")}
		if root != "" {
			module := first(filepath.Join(root, "usr/lib/syslog-ng/*/libaffile.so"))
			args = append(args, "--module-path="+filepath.Dir(module))
		}
		return args
	}}
	telegraf = rival{name: "telegraf", module: "github.com/influxdata/telegraf", version: "v1.37.2",
		goPackage: "github.com/influxdata/telegraf/cmd/telegraf",
		tags:      "custom,inputs.tail,outputs.file,parsers.value,parsers.json,serializers.csv,serializers.json",
		arguments: func(_, _, config string) []string { return []string{"--config", config} }}
	benthos = rival{name: "benthos", module: "github.com/redpanda-data/benthos/v4", version: "v4.78.0",
		goPackage: "github.com/redpanda-data/benthos/v4/cmd/benthos",
		arguments: func(_, _, config string) []string { return []string{"run", config} }}
)

// The rivals in the cases of logs of containers.
var (
	vlagent = rival{name: "vlagent", module: "github.com/VictoriaMetrics/VictoriaLogs", version: "v1.52.2",
		goPackage: "github.com/VictoriaMetrics/VictoriaLogs/app/vlagent",
		arguments: func(_, _, config string) []string {
			text, _ := os.ReadFile(config) // its configuration is its arguments
			return strings.Fields(string(text))
		}}
	telegrafHTTP = rival{name: "telegraf", module: telegraf.module, version: telegraf.version,
		goPackage: telegraf.goPackage, variant: "http",
		tags:      "custom,inputs.tail,outputs.http,parsers.value,serializers.json",
		arguments: telegraf.arguments}
	syslogNGHTTP = rival{name: "syslog-ng", debian: "syslog-ng-core syslog-ng-mod-http", variant: "http",
		arguments: syslogNG.arguments}
)

// pinned describes the versions for the title of the table.
func pinned() string {
	return "Telegraf " + telegraf.version + " is built with the plugins for these cases alone, Benthos is " +
		benthos.version + " of Redpanda's free module"
}

// first returns the first file that matches the pattern, or else the pattern, so that the program names it.
func first(pattern string) string {
	if found, _ := filepath.Glob(pattern); len(found) > 0 {
		return found[0]
	}
	return pattern
}

// command returns the command of the rival with the configuration.
func (r *rival) command(ctx context.Context, b *bench, config func(dir string, n int) string) (*exec.Cmd, error) {
	file := b.path("config.yaml")
	if err := os.WriteFile(file, []byte(config(b.dir, b.records)), 0o600); err != nil {
		return nil, err
	}
	if r.run != nil {
		args, err := r.run(b.dir, file)
		if err != nil {
			return nil, err
		}
		return exec.CommandContext(ctx, args[0], args[1:]...), nil
	}
	path, root, err := r.find()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, r.arguments(root, b.dir, file)...)
	if root != "" {
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+strings.Join([]string{first(root + "/usr/lib/*-linux-*"),
			first(root + "/lib/*-linux-*"), root + "/usr/lib/" + r.name}, ":"))
	}
	return cmd, nil
}

// find returns the path of the executable, and the directory of the package if it was unpacked.
func (r *rival) find() (path, root string, err error) {
	cached, err := r.cached()
	switch {
	case err != nil:
		return "", "", err
	case r.debian == "" && exists(cached):
		return cached, "", nil
	case r.debian == "":
		return "", "", r.missing()
	}
	for _, name := range []string{r.name, "/usr/sbin/" + r.name} { // which is not in the PATH of all users
		if path, err := exec.LookPath(name); err == nil {
			return path, "", nil
		}
	}
	if path = filepath.Join(cached, "usr/sbin", r.name); !exists(path) {
		return "", "", r.missing()
	}
	return path, cached, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// missing says how to install the rival.
func (r *rival) missing() error {
	if r.debian != "" {
		return unmeasured("missing: `apt-get install " + r.debian + "`, or `just bench -rivals`")
	}
	return unmeasured("missing: `just bench -rivals` builds " + r.module + "@" + r.version)
}

// cached returns where the rival is, or would be, in the cache directory of the user: the executable of a Go module,
// the directory of a package.
func (r *rival) cached() (string, error) {
	cache, err := os.UserCacheDir()
	name := r.name
	if r.version != "" {
		name += "-" + r.version
	}
	if r.variant != "" {
		name += "-" + r.variant
	}
	return filepath.Join(cache, "conduit-bench", name), err
}

// install builds or unpacks the rival unless it is there.
func (r *rival) install(ctx context.Context) error {
	var missing unmeasured
	if _, _, err := r.find(); !errors.As(err, &missing) {
		return err
	}
	target, err := r.cached()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(target), r.name+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	fmt.Fprintf(os.Stderr, "installing %s into %s\n", r.name, target)
	if r.debian == "" {
		err = r.build(ctx, work)
	} else {
		err = r.unpack(ctx, work)
	}
	if err != nil {
		return fmt.Errorf("cannot install %s: %w", r.name, err)
	}
	return os.Rename(filepath.Join(work, "result"), target)
}

// build builds the Go program as dir/result, in a separate module. "go install" would ask the proxy for the list of all
// versions, which not every proxy has.
func (r *rival) build(ctx context.Context, dir string) error {
	mod := fmt.Sprintf("module rival\n\ngo 1.26\n\nrequire %s %s\n", r.module, r.version)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600); err != nil {
		return err
	}
	return quietly(ctx, dir, []string{"GOFLAGS=", "GOWORK=off"}, "go", "build", "-mod=mod", "-trimpath",
		"-ldflags=-s -w", "-tags="+r.tags, "-o", "result", r.goPackage)
}

// unpack downloads the package, and those that it depends on and that are not installed, and unpacks them into
// dir/result. It needs no privileges.
func (r *rival) unpack(ctx context.Context, dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, "archives", "partial"), 0o755); err != nil {
		return err
	}
	args := append([]string{"install", "--download-only", "--yes", "--no-install-recommends", "-o", "Debug::NoLocking=1",
		"-o", "Dir::Cache::archives=" + filepath.Join(dir, "archives")}, strings.Fields(r.debian)...)
	if err := quietly(ctx, dir, nil, "apt-get", args...); err != nil {
		return err
	}
	packages, err := filepath.Glob(filepath.Join(dir, "archives", "*.deb"))
	if err == nil && len(packages) == 0 {
		err = fmt.Errorf("apt-get downloaded nothing for %s: %w", r.debian, fs.ErrNotExist)
	}
	for _, one := range packages {
		if err == nil {
			err = quietly(ctx, dir, nil, "dpkg-deb", "--extract", one, filepath.Join(dir, "result"))
		}
	}
	return err
}

// quietly runs a command in dir, and returns its output with its error.
func quietly(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", cmd, err, out[max(0, len(out)-2000):])
	}
	return nil
}
