package rest

// Inspected is a message of the inspector: a record, or the number of dropped records.
type Inspected struct {
	Result *InspectedRecord `json:"result,omitempty"`
	// Number of records not shown since the last such message.
	Dropped int `json:"dropped,omitempty"`
}

// InspectedRecord is a record in the form that the inspector shows.
type InspectedRecord struct {
	Position  []byte            `json:"position"`
	Operation InspectedOp       `json:"operation"`
	Metadata  map[string]string `json:"metadata"`
	Key       *InspectedData    `json:"key"`
	Payload   InspectedPayload  `json:"payload"`
}

// InspectedOp is the operation of a record.
type InspectedOp string

// Enum lists the operations.
func (InspectedOp) Enum() []string {
	return []string{"OPERATION_UNSPECIFIED", "OPERATION_CREATE", "OPERATION_UPDATE", "OPERATION_DELETE",
		"OPERATION_SNAPSHOT"}
}

// InspectedPayload is the data before and after the change that a record stands for.
type InspectedPayload struct {
	Before *InspectedData `json:"before"`
	After  *InspectedData `json:"after"`
}

// InspectedData is raw or structured data.
type InspectedData struct {
	RawData        []byte         `json:"rawData,omitempty"`
	StructuredData map[string]any `json:"structuredData,omitempty"`
}
