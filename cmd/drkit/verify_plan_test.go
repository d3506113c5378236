package main

import (
	"os"
	"path/filepath"
	"testing"

	"drkit/internal/service"
	"drkit/verify"
)

// TestPricesAreAWSsAlone: what another store charges is not known, whatever names
// its endpoint.
func TestPricesAreAWSsAlone(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte("[profile elsewhere]\nendpoint_url = http://127.0.0.1:9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_CONFIG_FILE", config)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	for _, name := range []string{"AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"} {
		t.Setenv(name, "")
	}
	for text, want := range map[string]bool{
		"s3://bucket/llm?region=us-east-1":                                             true,
		"s3://bucket/llm?region=us-east-1&endpoint=https://s3.us-east-1.amazonaws.com": true,
		"s3://bucket/llm?region=us-east-1&endpoint=https://minio.example":              false,
		"s3://bucket/llm?region=us-east-1&profile=elsewhere":                           false,
		"./folder": false,
	} {
		l, err := parseLocation(text)
		if err != nil {
			t.Fatal(err)
		}
		prices := planOption{Route: "internet"}.prices(map[string]service.Location{"p": l})(verify.Cost{Place: "p"})
		if (prices != nil) != want {
			t.Errorf("%s: priced %v", text, prices != nil)
		}
	}
	t.Setenv("AWS_ENDPOINT_URL_S3", "https://minio.example")
	l, err := parseLocation("s3://bucket/llm?region=us-east-1")
	if err != nil || onAWS(l) {
		t.Errorf("the environment's endpoint: %v", err)
	}
}
