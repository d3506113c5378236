// Package deploy reads deployment artifacts: Kubernetes YAML of any kind, Helm
// values, kustomizations, Compose files, Dockerfiles and lockfiles. From each it
// takes the container images, the command lines that start vLLM or SGLang, and
// what a person should know about it.
//
// Hand in one file after the other:
//
//	facts, problems := deploy.Read("deploy/base/vllm.yaml", data)
//
// A file that cannot be read whole, such as an unrendered Helm template, always
// has a problem: no images found never stands for "could not look".
package deploy

import (
	"path"
	"strings"

	"drkit/manifest/deploy/lockfile"
	"drkit/manifest/digest"
)

// Problem is something in an artifact that a person should know. What never
// holds a secret.
type Problem struct {
	Path string
	Line int    // 1-based; 0 when the place has no line
	Kind string // one of the Kind constants
	What string // one sentence
	Seen string // the words of the tool that would refuse it, if known
}

// Kinds of problems. They are stable words; rules refer to them.
const (
	KindSyntax          = "yaml-syntax"       // not YAML
	KindTemplate        = "yaml-template"     // a template that is not rendered: images in it are unknown
	KindDockerfile      = "dockerfile-syntax" // not a Dockerfile that a builder accepts
	KindImageInvalid    = "image-invalid"     // no valid reference
	KindImageUnresolved = "image-unresolved"  // holds a variable without a value
	KindPlainSecret     = "plain-secret"      // a secret in plain text
	KindShellCommand    = "engine-shell"      // the engine is started by a shell script that drkit does not read whole
	KindEngineEnv       = "engine-env"        // the engine's arguments hold variables without a known value
	KindEngineRuntime   = "engine-runtime"    // something that is not in the file makes the engine's command line out of these settings
)

// Role says what a file is to a recovery; the words are those of the manifest.
type Role string

// The roles of deployment artifacts.
const (
	Kubernetes Role = "kubernetes"
	Dockerfile Role = "dockerfile"
	Lockfile   Role = "lockfile"
	Other      Role = "other"
)

// Facts is what one file says.
type Facts struct {
	Path   string
	Role   Role
	Format string // kubernetes, kustomization, compose, yaml, dockerfile, or the lockfile's: uv, poetry, npm, …
	Images []Image
	Engine []EngineCommand
	Copied []Copy // what a Dockerfile takes out of its build context
}

// Copy is a place where a Dockerfile takes files out of its build context: COPY,
// ADD, or a bind mount of RUN. Source is a path.Match pattern, or a folder.
type Copy struct {
	Source string
	Line   int
}

// Image is a container image where a file names it.
type Image struct {
	Reference  string        // as written, with variables replaced where their values are known
	Registry   string        // index.docker.io when none is written
	Repository string        // without the registry
	Tag        string        // "latest" when neither tag nor digest is written
	Digest     digest.Digest // the zero value when it is not pinned
	FromArgs   bool          // holds default values that whoever builds or starts it may override
	Frontend   bool          // the builder that a Dockerfile's syntax line names; not part of what runs
	Path       string
	Line       int
}

// Pinned reports whether the reference names one content and no other.
func (i Image) Pinned() bool { return i.Digest != digest.Digest{} }

// EngineCommand is a container, or another resource, that starts an engine. Argv
// and Env are what the process gets and may hold secrets: give them to the reader
// of engine configuration, never print them.
type EngineCommand struct {
	Path      string
	Line      int    // where the arguments begin
	Container string // its name, if it has one
	Image     string
	Version   string   // of the engine, as the image's tag names it; "" when it does not
	Entry     string   // vllm (vllm serve), api_server, launch_server or sglang (sglang serve)
	Argv      []string // after the program's name; begins with "serve" where that is a subcommand
	Places    []Place  // where each argument stands
	Env       map[string]string
	// EntryAssumed says that the entry point is the image's own, taken to be
	// `vllm serve` as in the project's images.
	EntryAssumed bool
	// Exact is false when variables, a script or a controller keep Argv from
	// being known to be what the process really gets.
	Exact bool

	shell    bool           // a shell replaces variables
	envLines map[string]int // where each variable's value stands
}

// Place is where an argument stands: a line of the file, in the value of an
// environment variable if Env names one.
type Place struct {
	Line int
	Env  string
}

// The entry points of engines, as EngineCommand names them.
const (
	entryVLLM      = "vllm"
	entryAPIServer = "api_server"
	entryLaunch    = "launch_server"
	entrySGLang    = "sglang"
)

// Read reads one artifact. What it is follows from its name, and for YAML and
// JSON from its content.
func Read(file string, data []byte) (Facts, []Problem) {
	base := path.Base(file)
	if format, ok := lockfile.Format(base); ok {
		return Facts{Path: file, Role: Lockfile, Format: format}, nil
	}
	if isDockerfile(base) {
		return readDockerfile(file, data)
	}
	switch strings.ToLower(path.Ext(base)) {
	case ".yaml", ".yml", ".json":
		return readYAML(file, data)
	}
	if strings.EqualFold(path.Ext(base), ".tpl") {
		return Facts{Path: file, Role: Other, Format: "template"}, []Problem{{Path: file, Kind: KindTemplate,
			What: "the file is a template that drkit does not render; list the rendered YAML (helm template) instead"}}
	}
	return Facts{Path: file, Role: Other}, nil
}

func isDockerfile(base string) bool {
	lower := strings.ToLower(base)
	for _, name := range []string{"dockerfile", "containerfile"} {
		if lower == name || strings.HasPrefix(lower, name+".") || strings.HasSuffix(lower, "."+name) {
			return true
		}
	}
	return false
}
