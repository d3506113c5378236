package step

import (
	"slices"
	"testing"
)

// TestMentions: lines are named, their text is not, and comments run nothing.
func TestMentions(t *testing.T) {
	w := &World{Source: Region{Addresses: []Address{{What: "bucket prod-use1", Words: []string{"s3://prod-use1", "prod-use1"}}, {What: "endpoint", Words: []string{"127.0.0.1:9000", "vllm-0:8000"}}, {What: "registry", Words: []string{"shared.example"}}}},
		Target: Region{Addresses: []Address{{Words: []string{"shared.example"}}}}}
	text := `# copies from s3://prod-use1
image: shared.example/llm@sha256:1
args: [--model, s3://prod-use1/llm]
env:
  - {name: BUCKET, value: "prod-use1"}
  - {name: OTHER, value: prod-use12}
  - {name: PEER, value: http://vllm-0:8000/v1}
  - {name: LOCAL, value: 127.0.0.1:9000}
`
	got := mentions([]byte(text), w.sourceWords())
	want := []string{"3 names bucket prod-use1 of the source", "5 names bucket prod-use1 of the source", "7 names endpoint of the source"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
