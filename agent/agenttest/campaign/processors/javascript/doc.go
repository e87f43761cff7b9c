// Package javascript runs scripts that could harm the agent, each in a separate process.
package javascript
