// Package manifest describes everything that a recovery needs: the model
// repository, the engine's configuration and the deployment artifacts, each
// file by its digests, each image by its digest.
//
// Build makes a Manifest from sources, Encode writes it (equal input gives equal
// bytes), Decode reads it and checks that its release id covers its contents.
package manifest

import (
	"time"

	"drkit/manifest/deploy"
	"drkit/manifest/digest"
	"drkit/manifest/model"
)

// Schema names the format of the JSON; a reader refuses a newer major version.
const Schema = "drkit.manifest/1.0"

// Part is one of the three parts of a release.
type Part string

// The parts.
const (
	Model  Part = "model"
	Engine Part = "engine"
	Deploy Part = "deploy"
)

// Role says what a file is to a recovery.
type Role string

// The roles of files.
const (
	Weights       Role = "weights"
	Index         Role = "index"
	Tokenizer     Role = "tokenizer"
	ChatTemplate  Role = "chat-template"
	Config        Role = "config"
	Quantization  Role = "quantization"
	Generation    Role = "generation"
	Processor     Role = "processor"
	Code          Role = "code"
	AdapterFile   Role = "adapter"
	Draft         Role = "draft"
	EngineConfig  Role = "engine-config"
	EngineOptions Role = "engine-options" // flags and environment that drkit.yaml states itself
	Probes        Role = "probes"
	Kubernetes    Role = "kubernetes"
	Dockerfile    Role = "dockerfile"
	Lockfile      Role = "lockfile"
	Other         Role = "other"
)

// Manifest is one release of a service. Contents decide its id; Annotations are
// what was read out of the files and stay outside the id.
type Manifest struct {
	Schema      string      `json:"schema"`
	Service     string      `json:"service"`
	Release     string      `json:"release"` // SHA-256 of the canonical contents, 64 hexadecimal digits
	Sum         string      `json:"sum"`     // SHA-256 of the encoded manifest with zeros in this place; see Encode
	Contents    Contents    `json:"contents"`
	Annotations Annotations `json:"annotations"`
}

// Contents is everything that the release id covers, sorted.
type Contents struct {
	Files  []File  `json:"files"`
	Images []Image `json:"images,omitempty"`
}

// File is one file of the release. Path is relative to its part, with slashes:
// model files lie at base/…, adapters/NAME/…, drafts/NAME/… and repos/ORG/NAME/…
type File struct {
	Part   Part       `json:"part"`
	Region string     `json:"region,omitempty"` // empty: the same in every region
	Path   string     `json:"path"`
	Size   int64      `json:"size"` // bytes
	Role   Role       `json:"role"`
	Sums   digest.Set `json:"sums"`
}

// Subject is the file's name in findings and gaps: part/path, with the region
// of a region-specific file in front of the path: deploy/@eu-west-1/path.
func (f File) Subject() string {
	if f.Region != "" {
		return string(f.Part) + "/@" + f.Region + "/" + f.Path
	}
	return string(f.Part) + "/" + f.Path
}

// Image is a container image that a deploy file names. Digest is the zero value
// while it is not pinned.
type Image struct {
	Reference string        `json:"reference"`
	Region    string        `json:"region,omitempty"`
	Digest    digest.Digest `json:"digest,omitzero"`
	Files     []string      `json:"files"` // where it is named: "path:line"
}

// Annotations are facts and problems read from the files. They let check, diff
// and the drill work without the files, and never change the release id.
type Annotations struct {
	Tool     string          `json:"tool,omitempty"` // version of drkit that built it
	Model    *model.Facts    `json:"model,omitempty"`
	Adapters []model.Adapter `json:"adapters,omitempty"`
	Drafts   []DraftFacts    `json:"drafts,omitempty"`
	Further  []FurtherFacts  `json:"repositories,omitempty"` // repositories that the model takes code or files from
	Engine   []EngineFacts   `json:"engine,omitempty"`       // one a region that has its own files, else one
	Probes   []ProbeFacts    `json:"probes,omitempty"`
	Origins  []Origin        `json:"origins,omitempty"`
	// Pins are the version ids of what was read out of buckets that keep versions,
	// by part and path.
	Pins     map[string]string `json:"pins,omitempty"`
	Pods     []PodFacts        `json:"pods,omitempty"` // containers that start an engine, with what ends their start
	Locks    []LockFacts       `json:"locks,omitempty"`
	Named    []string          `json:"adapters_named,omitempty"` // adapters that a deploy file names, beside those of command lines
	Images   []ImageFacts      `json:"images,omitempty"`         // what registries said, where they were asked
	Problems []Problem         `json:"problems,omitempty"`
	Regions  []RegionSummary   `json:"regions,omitempty"`
}

// Origin says which commit of a repository on a model hub a folder of the model
// part was taken from.
type Origin struct {
	Tree   string `json:"tree"`           // base, adapters/NAME or drafts/NAME
	Repo   string `json:"repo,omitempty"` // org/name; empty when the source did not keep it
	Commit string `json:"commit"`         // 40 hexadecimal digits
	// Refs are the names under refs/ of a hub cache that lead to the commit, such
	// as main; nil where the source keeps none.
	Refs *[]string `json:"refs,omitempty"`
}

// DraftFacts is what was read out of one draft model for speculative decoding.
type DraftFacts struct {
	Name  string       `json:"name"`
	Facts *model.Facts `json:"facts"`
}

// FurtherFacts is what was read out of a repository that the model refers to.
// Its files lie at repos/NAME.
type FurtherFacts struct {
	Name     string       `json:"name"` // its hub id
	Revision string       `json:"revision,omitempty"`
	Facts    *model.Facts `json:"facts"`
}

// PodFacts is a container of a deploy file that starts an engine.
type PodFacts struct {
	Region string `json:"region,omitempty"`
	Path   string `json:"path"`
	Kind   string `json:"kind,omitempty"` // of the resource
	Name   string `json:"name,omitempty"`
	deploy.Container
}

// ProbeFacts is what a file of recorded probes is bound to.
type ProbeFacts struct {
	Path      string        `json:"path"`
	Region    string        `json:"region,omitempty"`
	Subject   digest.Digest `json:"subject"` // compare with SubjectOf
	Hardware  string        `json:"hardware_class,omitempty"`
	Residency string        `json:"residency,omitempty"`
	Count     int           `json:"count"`
	Models    []string      `json:"models,omitempty"` // that the probes ask for, sorted
}

// KindProbes is the kind of problem of recorded probes that cannot be read.
const KindProbes = "probes-invalid"

// EngineFacts is what the engine will make of its configuration in a region.
type EngineFacts struct {
	Region  string         `json:"region,omitempty"` // empty: in every region
	Source  string         `json:"source,omitempty"` // "path:line" of the deploy file that starts it; empty: drkit.yaml
	Kind    string         `json:"kind"`             // vllm or sglang
	Version string         `json:"version,omitempty"`
	Model   string         `json:"model,omitempty"`   // as the configuration names it
	Options map[string]any `json:"options,omitempty"` // effective options by destination name, those that differ from their defaults
	// Where says which line sets an option, as "path:line" of an engine file; an
	// option that is not in it stands on the command line.
	Where map[string]string `json:"where,omitempty"`
	Env   map[string]string `json:"env,omitempty"` // the variables of EngineVariables that are set
	// Template is that of --chat-template, where its file is in the release.
	Template *model.Template `json:"template,omitempty"`
	Judged   bool            `json:"judged"`          // the prediction is whole; else the problems say what kept it from that
	Exits    string          `json:"exits,omitempty"` // what the engine prints when it ends while it reads its configuration
}

// RegionSummary is what the service file says of a region, without credentials.
type RegionSummary struct {
	Name      string `json:"name"`
	Role      string `json:"role"`
	Residency string `json:"residency,omitempty"`
	// Allowed are the differences from the source that are meant, as drkit.yaml
	// lists them: options of the engine, fields, kinds, files.
	Allowed []string `json:"allowed_differences,omitempty"`
	// Places are for Build alone: what it finds by them becomes problems.
	Places RegionPlaces `json:"-"`
}

// Problem is malformed content that build met: the rules turn it into findings.
type Problem struct {
	Part   Part   `json:"part"`
	Region string `json:"region,omitempty"`
	Path   string `json:"path"`
	Kind   string `json:"kind"` // a stable word, such as "safetensors-truncated"
	Line   int    `json:"line,omitempty"`
	What   string `json:"what"`
	Seen   string `json:"seen,omitempty"` // what the engine itself would print, where a reader knows it
}

// Severity orders findings. Block, Request and Silent fail the gate.
type Severity string

// The severities, gravest first.
const (
	Block    Severity = "block"    // the engine does not boot
	Request  Severity = "request"  // it boots, and some requests fail
	Silent   Severity = "silent"   // it boots and gives wrong answers
	Degraded Severity = "degraded" // slower or less accurate
	Info     Severity = "info"
)

// FailsGate reports whether a finding of this severity fails the release gate.
// With strict, Degraded fails it too.
func (s Severity) FailsGate(strict bool) bool {
	return s == Block || s == Request || s == Silent || (strict && s == Degraded)
}

// Finding is what a completeness rule says about a release.
type Finding struct {
	Rule     string   `json:"rule"` // as in docs/rules.md, such as "T-1"
	Severity Severity `json:"severity"`
	Part     string   `json:"part"`
	Path     string   `json:"path,omitempty"`
	Line     int      `json:"line,omitempty"`
	Field    string   `json:"field,omitempty"`
	Message  string   `json:"message"`
	Seen     string   `json:"seen,omitempty"` // what the engine would say: "you would see"
	Hint     string   `json:"hint,omitempty"`
	Waived   string   `json:"waived,omitempty"` // owner, reason and expiry of the waiver
}

// Waiver accepts a finding or gap until it expires.
type Waiver struct {
	Rule, Path, Reason, Owner string
	Expires                   time.Time
}
