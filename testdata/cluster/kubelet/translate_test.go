//go:build linux

package kubelet

import (
	"slices"
	"strings"
	"testing"
)

func TestRewrite(t *testing.T) {
	paths := table{{"/models/base", "/here/b"}, {"/models", "/here/m"}}
	for in, want := range map[string]string{
		"/models":                       "/here/m",
		"/models/base/config.json":      "/here/b/config.json",
		"--model=/models/x":             "--model=/here/m/x",
		"billing=/models/base,/models":  "billing=/here/b,/here/m",
		"cat '/models/a' /models/b":     "cat '/here/m/a' /here/m/b",
		"file:/models":                  "file:/here/m",
		"/models2/x":                    "/models2/x",
		"/old/models":                   "/old/models",
		"s3://bucket/models":            "s3://bucket/models",
		"models":                        "models",
		`{"path": "/models", "n": "1"}`: `{"path": "/here/m", "n": "1"}`,
	} {
		if got := paths.rewrite(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// The examples are those of the Kubernetes documentation of "command" and "args".
func TestExpand(t *testing.T) {
	env := map[string]string{"VAR": "value", "EMPTY": ""}
	for in, want := range map[string]string{
		"$(VAR)": "value", "a$(VAR)b": "avalueb", "$(EMPTY)": "", "$(MISSING)": "$(MISSING)", "$$(VAR)": "$(VAR)", "$VAR": "$VAR", "$$$(VAR)": "$value", "$(": "$(",
	} {
		if got := expand(in, env); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestListen(t *testing.T) {
	for in, want := range map[string]string{
		"serve /m":                      "serve /m --host 127.1.2.3",
		"serve --host 0.0.0.0 --port 1": "serve --port 1 --host 127.1.2.3",
		"serve --host=0.0.0.0 --hosts":  "serve --hosts --host 127.1.2.3",
	} {
		if got := Listen("--host")("127.1.2.3", strings.Fields(in)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestImage(t *testing.T) {
	digest := "sha256:" + strings.Repeat("1", 64)
	k := &Kubelet{Options: Options{Images: []Image{{Ref: "r.example:5000/llm/vllm:1", Digest: digest}}}}
	for ref, want := range map[string]bool{
		"r.example:5000/llm/vllm:1": true, "r.example:5000/llm/vllm@" + digest: true, "r.example:5000/llm/vllm:2@" + digest: true,
		"r.example:5000/llm/vllm:2": false, "r.example:5000/llm/vllm": false, "r.example:5000/llm/other@" + digest: false,
		"r.example:5000/llm/vllm:1@sha256:" + strings.Repeat("2", 64): false, "r.example/llm/vllm:1": false,
	} {
		if _, got := k.image(ref); got != want {
			t.Errorf("%s: known %v, want %v", ref, got, want)
		}
	}
}

func TestOutputKeepsAnUnfinishedLine(t *testing.T) {
	o := newOutput()
	for _, part := range []string{"on", "e\ntwo\nthr", "ee"} {
		_, _ = o.Write([]byte(part))
	}
	if got := o.tail(); got != "one\ntwo\n" {
		t.Errorf("before its end: %q", got)
	}
	o.end()
	if got := o.tail(); got != "one\ntwo\nthree" {
		t.Errorf("after its end: %q", got)
	}
}
