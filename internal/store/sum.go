package store

import (
	"encoding/json"

	"drkit/manifest/digest"
)

// sumJSON is a Sum in reports; without it the embedded Digest's text form alone
// would be written.
type sumJSON struct {
	Digest       digest.Digest `json:"digest"`
	Evidence     Evidence      `json:"evidence"`
	Parts        int           `json:"parts,omitempty"`
	EqualityOnly bool          `json:"equality_only,omitempty"`
}

// MarshalJSON writes the digest with what it rests on.
func (s Sum) MarshalJSON() ([]byte, error) {
	return json.Marshal(sumJSON{s.Digest, s.Evidence, s.Parts, s.EqualityOnly})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Sum) UnmarshalJSON(data []byte) error {
	var j sumJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*s = Sum{j.Digest, j.Parts, j.Evidence, j.EqualityOnly}
	return nil
}
