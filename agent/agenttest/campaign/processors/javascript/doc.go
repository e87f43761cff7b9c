// Package javascript tries scripts that would harm the agent, each in a process of its own.
package javascript
