// Package plugins holds the tests of an agent with connectors in processes of their own and processors in modules.
package plugins
