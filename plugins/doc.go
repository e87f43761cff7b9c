// Package plugins finds connectors by name and creates their instances. Built-in connectors run in the agent's process,
// others are accessed through a Registry.
//
// An instance of either kind is a connector.Source or connector.Destination: it moves batches, has deadlines, and
// cannot crash the agent.
package plugins
