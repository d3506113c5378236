package kubernetes

import (
	"io"
	"os"
	"testing"

	"k8s.io/klog/v2"
)

// client-go logs an error for every connection that an engine refuses while it boots.
func TestClientGoIsSilent(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = write
	klog.ErrorS(nil, "error forwarding port 8000")
	klog.Info("information")
	klog.Flush()
	os.Stderr = stderr
	_ = write.Close()
	if text, _ := io.ReadAll(read); len(text) > 0 {
		t.Errorf("on stderr: %s", text)
	}
}
