package redact_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"drkit/internal/redact"
)

func TestShapes(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"key id":     {"id AKIAIOSFODNN7EXAMPLE here", "id [redacted] here"},
		"hub token":  {"HF hf_abcdefghijklmnopqrstuvwx", "HF [redacted]"},
		"bearer":     {"Authorization: Bearer abcdef123456", "Authorization: Bearer [redacted]"},
		"url user":   {"https://joe:s3cr3t@host/x", "https://[redacted]@host/x"},
		"url shouts": {"HTTPS://joe:s3cr3t@host/x", "HTTPS://[redacted]@host/x"},
		"url token":  {"http://s3cr3ts3cr3t@host/x", "http://[redacted]@host/x"},
		"hub":        {"hf://gpt2@main hf://org/m@v1", "hf://gpt2@main hf://org/m@v1"},
		"presigned":  {"GET /k?X-Amz-Signature=0123abcd&x=1", "GET /k?X-Amz-Signature=[redacted]&x=1"},
		"assignment": {`{"aws_secret_access_key": "wJalrXUtnFEMI"}`, `{"aws_secret_access_key": "[redacted]"}`},
		"plain":      {"http://127.0.0.1:8000/v1/models took 3 s", "http://127.0.0.1:8000/v1/models took 3 s"},
		"digest":     {"image app@sha256:abc", "image app@sha256:abc"},
		"image port": {"registry.example:5000/a/b@sha256:abc", "registry.example:5000/a/b@sha256:abc"},
	} {
		var r *redact.Redactor
		if got := r.String(c.in); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestWriterCatchesASplitSecret(t *testing.T) {
	var out bytes.Buffer
	w := redact.FromEnviron([]string{"HF_TOKEN=correct-horse", "PATH=/usr/bin/long", "MY_API_KEY=battery-staple"}).Writer(&out)
	for _, piece := range []string{"a corr", "ect-ho", "rse b battery-", "stapler /usr/bin/long cor"} {
		if _, err := w.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "a [redacted] b [redacted]r /usr/bin/long cor"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestJSONStaysJSON: a shape must not swallow the backslash of an escape.
func TestJSONStaysJSON(t *testing.T) {
	for _, in := range []string{`{"n":"password=abcdefg\\"x"}`, `{"n":"https://joe:s3cr3tpw\\"@host"}`, `{"u":"?sig=abcdef\\"y"}`} {
		in = strings.ReplaceAll(in, `\\`, `\`)
		if got := redact.New().String(in); !json.Valid([]byte(in)) || !json.Valid([]byte(got)) {
			t.Errorf("%s became %s", in, got)
		}
	}
}

func TestShortValuesStay(t *testing.T) {
	if got := redact.New("true").String("true story"); got != "true story" {
		t.Errorf("a short value was redacted: %q", got)
	}
}
