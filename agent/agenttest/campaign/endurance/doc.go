// Package endurance tests the resources of an agent: the memory limit with records of many megabytes, resource use that
// stays flat over time, and limits on the demands of a pipeline.
package endurance
