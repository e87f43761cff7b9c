package host

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
	"nonsense":          {map[string]string{"proc/self/cgroup": "nonsense\n", "sys/fs/cgroup/memory.max": "1048576\n"}, 0},
	"no control groups": {nil, 0},
}

func TestGroupLimit(t *testing.T) {
	tests := groupLimitCases
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{}
			for path, text := range tt.files {
				root[path] = &fstest.MapFile{Data: []byte(text)}
			}
			got, ok := groupLimit(root)
			if !ok {
				got = 0
			}
			if got != tt.want {
				t.Errorf("the limit is %d, want %d", got, tt.want)
			}
		})
	}
}
