package main

import (
	"encoding/json"
	"net/http"
	"strings"
)

// kubernetes is the API of a cluster with one node and its pods, as far as log collectors ask it.
type kubernetes struct{}

// object is an object of the API.
type object = map[string]any

// ServeHTTP answers requests for the node, the namespace and the pods. A request to watch them waits: nothing changes.
func (kubernetes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	named := func(name string) object {
		return object{"metadata": object{"name": name, "resourceVersion": "1", "labels": object{}}}
	}
	list := func(items ...object) object {
		return object{"metadata": object{"resourceVersion": "1"}, "items": items}
	}
	var answer object
	switch path := strings.TrimPrefix(r.URL.Path, "/api/v1/"); {
	case path == "pods" && r.URL.Query().Get("watch") != "":
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	case path == "pods":
		answer = list(podObjects()...)
	case path == "nodes":
		answer = list(named(nodeName))
	case path == "nodes/"+nodeName:
		answer = named(nodeName)
	case path == "namespaces":
		answer = list(named(podNamespace))
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

const nodeName = "node"

func podObjects() (all []object) {
	for n := range numberOfPods {
		all = append(all, object{
			"metadata": object{"name": podName(n), "namespace": podNamespace, "resourceVersion": "1"},
			"spec":     object{"nodeName": nodeName, "containers": []object{{"name": podContainer}}},
			"status": object{"podIP": "10.0.0.1", "containerStatuses": []object{{"name": podContainer,
				"containerID": "containerd://" + containerID(n)}}},
		})
	}
	return all
}

// kubeConfig is a file that leads to the API at url.
func kubeConfig(url string) string {
	return `apiVersion: v1
kind: Config
current-context: bench
contexts: [{name: bench, context: {cluster: bench, user: bench}}]
clusters: [{name: bench, cluster: {server: "` + url + `"}}]
users: [{name: bench, user: {}}]
`
}
