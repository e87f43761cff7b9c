// Package expr has the processors expr.map and expr.filter, whose settings are expressions of expr-lang. They are
// compiled and type-checked when a declaration is checked.
package expr

import "github.com/conduit-agent/conduit/plugins/sdk"

// Plugins returns the processors of this package.
func Plugins() []sdk.ProcessorPlugin { return []sdk.ProcessorPlugin{Filter(), Map()} }

const ofNumbers = " A number that a float would change, such as 12345678901234567890.12, keeps its digits where it " +
	"is passed on, ordered or made text; " +
	"to compute with it rounds it to a float, and it equals nothing but itself."

// Map describes expr.map.
func Map() sdk.ProcessorPlugin {
	return sdk.ProcessorPlugin{
		Name:    "expr.map",
		Summary: "Set fields to the results of expressions over a record.",
		Description: "Evaluates a line \"reference = expression\" for each field to set. All expressions see the " +
			"record as it came. " +
			"They may refer to operation, position, metadata, key, before and after." + ofNumbers +
			"\n\n" + language,
		Version: "v0.1.0", Author: "conduit",
		New: newMapper,
	}
}

// Filter describes expr.filter.
func Filter() sdk.ProcessorPlugin {
	return sdk.ProcessorPlugin{
		Name:    "expr.filter",
		Summary: "Keeps the records for which an expression is true.",
		Description: "Evaluates an expression for every record. When it is false the record ends here, as handled. " +
			"The expression may refer to operation, position, metadata, key, before and after." + ofNumbers +
			"\n\n" + language,
		Version: "v0.1.0", Author: "conduit",
		New: newFilter,
	}
}
