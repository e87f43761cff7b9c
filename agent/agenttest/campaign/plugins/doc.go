// Package plugins tests an agent with connectors in separate processes and processors in modules.
package plugins
