//go:build linux

package kubelet

import (
	"strings"
	"time"
)

// Image is what stands for a container image.
type Image struct {
	Ref    string // as pods name it: "registry.example/llm/vllm:0.32.0"
	Digest string // "sha256:…": a pod may name repository@digest instead of the tag, and it must be this one
	// Entrypoint and Cmd are those of a real image, with local paths: the
	// container's command replaces both, its args replace Cmd alone.
	Entrypoint, Cmd []string
	Env             map[string]string // PATH decides where a command without a slash is found; default: this process's own PATH
	Files           map[string]string // paths inside the image and where they are here
	Pull            time.Duration     // how long it takes to pull, the first time on this kubelet
	// Rewrite has the last word on a command line, for what a process cannot be
	// told otherwise: the pod's address to listen on.
	Rewrite func(podIP string, argv []string) []string
}

// Listen is a Rewrite for programs that take their address by a flag: it
// replaces the flag's value or adds the flag at the end.
func Listen(flag string) func(string, []string) []string {
	return func(podIP string, argv []string) []string {
		var out []string
		for i := 0; i < len(argv); i++ {
			switch {
			case argv[i] == flag:
				i++ // and its value
			case !strings.HasPrefix(argv[i], flag+"="):
				out = append(out, argv[i])
			}
		}
		return append(out, flag, podIP)
	}
}

// SetImages replaces the images. Containers that run go on; what starts from now on is of the new ones.
func (k *Kubelet) SetImages(images []Image) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Images, k.pulled = images, map[string]bool{}
}

// image finds what a reference means. A digest must be the image's own; the tag
// beside it is then not looked at, as registries do it.
func (k *Kubelet) image(ref string) (Image, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	name, digest, pinned := strings.Cut(ref, "@")
	for _, i := range k.Images {
		if !pinned && i.Ref == ref {
			return i, true
		}
		if pinned && i.Digest == digest && repository(i.Ref) == repository(name) {
			return i, true
		}
	}
	return Image{}, false
}

func repository(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	if colon := strings.LastIndexByte(ref, ':'); colon > strings.LastIndexByte(ref, '/') {
		ref = ref[:colon]
	}
	return ref
}

// id is the imageID of a container's status.
func (i Image) id() string {
	if i.Digest == "" {
		return ""
	}
	return repository(i.Ref) + "@" + i.Digest
}
