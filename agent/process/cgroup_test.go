package process

import (
	"testing"
	"testing/fstest"
)

// groupLimitCases are the cases of TestGroupLimit.
var groupLimitCases = map[string]struct {
	files map[string]string
	want  int64 // 0: none
}{
	"version 2": {map[string]string{
		"proc/self/cgroup": "0::/system.slice/conduit.service\n",
		"sys/fs/cgroup/system.slice/conduit.service/memory.max": "268435456\n",
	}, 256 << 20},
	"version 2, a group around it allows less": {map[string]string{
		"proc/self/cgroup":                                      "0::/system.slice/conduit.service\n",
		"sys/fs/cgroup/system.slice/memory.max":                 "1000000\n",
		"sys/fs/cgroup/system.slice/conduit.service/memory.max": "2000000\n",
	}, 1_000_000},
	"version 2, in a container": {map[string]string{
		"proc/self/cgroup":         "0::/\n",
		"sys/fs/cgroup/memory.max": "536870912\n",
	}, 512 << 20},
	"version 2, no limit": {map[string]string{
		"proc/self/cgroup":                    "0::/user.slice\n",
		"sys/fs/cgroup/user.slice/memory.max": "max\n",
	}, 0},
	"version 1": {map[string]string{
		"proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/docker/abc\n1:name=systemd:/\n",
		"sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": "104857600\n",
	}, 100 << 20},
	"version 1, in a container that names the group of the host": {map[string]string{
		"proc/self/cgroup":                           "4:memory:/docker/abc\n",
		"sys/fs/cgroup/memory/memory.limit_in_bytes": "104857600\n",
	}, 100 << 20},
	"version 1, no limit": {map[string]string{
		"proc/self/cgroup":                           "4:memory:/\n",
		"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
	}, 0},
	"both versions, memory in version 1": {map[string]string{
		"proc/self/cgroup": "4:memory:/a\n0::/a\n",
		"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "104857600\n",
	}, 100 << 20},
	"a path that leads up": {map[string]string{
		"proc/self/cgroup":         "0::/../other\n",
		"sys/fs/cgroup/memory.max": "1048576\n",
	}, 1 << 20},
	"nonsense": {map[string]string{"proc/self/cgroup": "nonsense\n", "sys/fs/cgroup/memory.max": "1048576\n"},
		0},
	"no control groups": {nil, 0},
}

func TestGroupLimit(t *testing.T) {
	tests := groupLimitCases
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := memoryLimit(machine(tt.files), 0); got != tt.want {
				t.Errorf("the limit is %d, want %d", got, tt.want)
			}
		})
	}
}

func TestCPULimit(t *testing.T) {
	tests := map[string]struct {
		files map[string]string
		want  float64 // 0: none
	}{
		"version 2": {map[string]string{
			"proc/7/cgroup": "0::/system.slice/conduit.service\n",
			"sys/fs/cgroup/system.slice/conduit.service/cpu.max": "5000 100000\n",
		}, 0.05},
		"version 2, a group around it allows less": {map[string]string{
			"proc/7/cgroup":                                      "0::/system.slice/conduit.service\n",
			"sys/fs/cgroup/system.slice/cpu.max":                 "50000 100000\n",
			"sys/fs/cgroup/system.slice/conduit.service/cpu.max": "150000 100000\n",
		}, 0.5},
		"version 2, no limit": {map[string]string{
			"proc/7/cgroup":           "0::/a\n",
			"sys/fs/cgroup/a/cpu.max": "max 100000\n",
		}, 0},
		"version 1": {map[string]string{
			"proc/7/cgroup":                         "5:cpu,cpuacct:/a\n4:memory:/b\n",
			"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us":  "200000\n",
			"sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n",
		}, 2},
		"version 1, no limit": {map[string]string{
			"proc/7/cgroup":                         "5:cpu:/a\n",
			"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us":  "-1\n",
			"sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n",
		}, 0},
		"another process": {map[string]string{
			"proc/8/cgroup":           "0::/a\n",
			"sys/fs/cgroup/a/cpu.max": "5000 100000\n",
		}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := cpuLimit(machine(tt.files), 7); got != tt.want {
				t.Errorf("the limit is %v, want %v", got, tt.want)
			}
		})
	}
}

// machine is a file system with these files.
func machine(files map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for path, text := range files {
		root[path] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}
