// Package plugins finds connectors by name and makes instances of them: those compiled
// into the agent run in its process, others are reached through a Registry.
//
// An instance of either kind is a connector.Source or connector.Destination: it moves batches, has
// deadlines, and cannot take the agent down with it.
package plugins
