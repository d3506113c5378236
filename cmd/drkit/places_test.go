package main

import (
	"os"
	"path/filepath"
	"testing"

	"drkit/internal/service"
)

// TestBucketsByTheEnvironmentAreOnePlace: an endpoint that is written in one region
// and comes from the environment in the other is one endpoint.
func TestBucketsByTheEnvironmentAreOnePlace(t *testing.T) {
	t.Setenv("AWS_ENDPOINT_URL", "http://localhost:9000")
	written := func(path, endpoint string) service.Location {
		return service.Location{Scheme: service.SchemeS3, Path: path, S3: service.S3{Endpoint: endpoint}}
	}
	outer := written("llm/x", "http://127.0.0.1:9000/")
	for inner, want := range map[service.Location]bool{
		written("llm/x", ""): true, written("llm/x/y", ""): true, written("llm/xy", ""): false, written("other/x", ""): false, written("llm/x", "http://eu:9000"): false,
	} {
		if got := holdsPlace(outer, inner); got != want {
			t.Errorf("%+v: got %v, want %v", inner, got, want)
		}
	}
}

// TestLinkedStoresAreOnePlace: a copy that is the source itself, by a link or
// inside it, must not verify as a copy.
func TestLinkedStoresAreOnePlace(t *testing.T) {
	dir := t.TempDir()
	us, eu := filepath.Join(dir, "us"), filepath.Join(dir, "eu")
	for _, d := range []string{filepath.Join(us, "inner"), eu} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"same": us, "nested": filepath.Join(us, "inner"), "apart": eu} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{"same": true, "nested": true, "apart": false, "eu": false, "not-there": false} {
		if got := liesIn(filepath.Join(dir, name), us); got != want {
			t.Errorf("%s lies in us: got %v, want %v", name, got, want)
		}
	}
}
