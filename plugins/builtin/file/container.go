package file

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Metadata of the lines of containers. The names are those of OpenTelemetry.
const (
	keyContainerID  = "container.id"
	keyContainer    = "k8s.container.name"
	keyRestartCount = "k8s.container.restart_count"
	keyNamespace    = "k8s.namespace.name"
	keyPod          = "k8s.pod.name"
	keyPodUID       = "k8s.pod.uid"
	keyStream       = "log.iostream"

	keyError   = "file.error"   // why a line could not be parsed
	keyPartial = "file.partial" // "true" for a line whose end is missing
)

// containerOf returns the metadata of the container whose log is at a path, as far as the path has it. The kubelet
// names logs NAMESPACE_POD_UID/CONTAINER/RESTARTS.log, and links to them POD_NAMESPACE_CONTAINER-ID.log. Docker names
// them ID/ID-json.log.
func containerOf(path string) (m record.Metadata) {
	m.Set(keyPath, path)
	path = filepath.Clean(path)
	if pod := podLog(path); pod != nil {
		return append(m, pod...)
	}
	name, isLog := strings.CutSuffix(filepath.Base(path), ".log")
	if !isLog {
		return m
	}
	if id, ok := strings.CutSuffix(name, "-json"); ok && isContainerID(id) {
		m.Set(keyContainerID, id)
		return m
	}
	parts := strings.Split(name, "_")
	if len(parts) != 3 || slices.Contains(parts, "") {
		return m
	}
	i := strings.LastIndexByte(parts[2], '-')
	if i <= 0 || !isContainerID(parts[2][i+1:]) {
		return m
	}
	m.Set(keyContainerID, parts[2][i+1:])
	if target, err := os.Readlink(path); err == nil {
		if pod := podLog(target); pod != nil {
			return append(m, pod...)
		}
	}
	m.Set(keyContainer, parts[2][:i])
	m.Set(keyNamespace, parts[1])
	m.Set(keyPod, parts[0])
	return m
}

// podLog returns the metadata of the container with a log NAMESPACE_POD_UID/CONTAINER/RESTARTS.log, or nil for another
// path.
func podLog(path string) record.Metadata {
	restarts, isLog := strings.CutSuffix(filepath.Base(path), ".log")
	if !isLog || restarts == "" || strings.Trim(restarts, "0123456789") != "" {
		return nil
	}
	dir := filepath.Dir(path)
	container := filepath.Base(dir)
	pod := strings.Split(filepath.Base(filepath.Dir(dir)), "_")
	if len(pod) != 3 || slices.Contains(pod, "") || strings.Contains(container, "_") {
		return nil
	}
	return record.Metadata{{Key: keyContainer, Value: container}, {Key: keyRestartCount, Value: restarts},
		{Key: keyNamespace, Value: pod[0]}, {Key: keyPod, Value: pod[1]}, {Key: keyPodUID, Value: pod[2]}}
}

// isContainerID reports whether text is the id that a runtime gives a container.
func isContainerID(text string) bool {
	return len(text) == 64 && strings.Trim(text, "0123456789abcdef") == ""
}
