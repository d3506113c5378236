// Package service reads drkit.yaml, the file that describes one served model:
// its sources, the regions that hold a copy, and what a recovery must achieve.
//
//	s, err := service.Load("drkit.yaml")
//	for _, t := range s.Targets() { … t.Store.Path … }
//
// Load reads strictly and returns everything that is wrong at once, with lines.
// Paths are relative to the file's folder: a Location keeps what was written
// and what it means. Docs: docs/drkit-yaml.md, schema: docs/drkit.schema.json.
package service

import (
	"path/filepath"
	"strings"
	"time"

	"drkit/manifest/region"
)

// APIVersion is the version of the format that this drkit reads.
const APIVersion = "drkit/v1"

// Service is one drkit.yaml with its defaults filled in.
type Service struct {
	APIVersion string     `yaml:"apiVersion" strict:"required"`
	Kind       string     `yaml:"kind" strict:"required"`
	Metadata   Metadata   `yaml:"metadata" strict:"required"`
	Model      Model      `yaml:"model" strict:"required"`
	Engine     Engine     `yaml:"engine"`
	Deploy     Deploy     `yaml:"deploy"`
	Regions    []Region   `yaml:"regions" strict:"required"`
	Edge       Edge       `yaml:"edge"`
	Rehearsal  Rehearsal  `yaml:"rehearsal"`
	Traffic    []Traffic  `yaml:"traffic"`
	Objectives Objectives `yaml:"objectives"`
	Playbook   string     `yaml:"playbook"` // a built-in name or a file; see PlaybookFile
	Waivers    []Waiver   `yaml:"waivers"`
	Approvals  Approvals  `yaml:"approvals"`
	Live       Live       `yaml:"live"`
	Run        Run        `yaml:"run"`

	File string // the file as it was named to Load
	Dir  string // its folder, absolute: what patterns and relative paths start from

	unused []Note
}

// Metadata names the service. Tier is the team's own ranking, 0 when not given.
type Metadata struct {
	Name string `yaml:"name" strict:"required"`
	Tier int    `yaml:"tier" strict:"min=0"`
}

// Model says where the model's files come from.
type Model struct {
	Source   Location `yaml:"source" strict:"required"`
	Adapters []Extra  `yaml:"adapters"`
	Drafts   []Extra  `yaml:"drafts"`
	// Repositories are further ones that the model or the engine's flags refer to:
	// code that auto_map names, a tokenizer, a part of the model.
	Repositories []Repository `yaml:"repositories"`
}

// Extra is an adapter or a draft model. Name is a path element of the release.
type Extra struct {
	Name   string   `yaml:"name" strict:"required"`
	Source Location `yaml:"source" strict:"required"`
}

// Repository is a further repository of the release. Name is its hub id, such as
// acme/impl: what refers to it uses that.
type Repository struct {
	Name     string   `yaml:"name" strict:"required"`
	Source   Location `yaml:"source" strict:"required"`
	Revision string   `yaml:"revision"` // the commit that Source is a copy of; "": not said
}

// Engine says what serves the model, and how. Configs are paths beneath Dir.
type Engine struct {
	Kind    string            `yaml:"kind" strict:"enum=vllm|sglang"`
	Version string            `yaml:"version"` // "0.32.0"; "": not said
	Configs []string          `yaml:"configs"`
	Args    []string          `yaml:"args"` // as typed on a command line
	Env     map[string]string `yaml:"env"`
	Probes  Location          `yaml:"probes"` // recorded behaviour; zero: none
}

// Deploy lists deploy files by patterns relative to Dir, and images beside those
// that the files name.
type Deploy struct {
	Files  []string `yaml:"files"`
	Images []string `yaml:"images"`
}

// Region holds a copy of the release.
type Region struct {
	Name               string           `yaml:"name" strict:"required"`
	Role               region.Role      `yaml:"role" strict:"required,enum=source|target"`
	Residency          region.Residency `yaml:"residency"` // "": unknown, allows nothing
	Store              Location         `yaml:"store" strict:"required"`
	S3                 S3               `yaml:"s3"`
	Layout             string           `yaml:"layout" strict:"enum=drkit|in-place"`
	ModelPrefix        string           `yaml:"model_prefix"` // in-place: where the model part lies in the store
	State              Location         `yaml:"state"`        // CURRENT and locks; zero: none, the store is read only
	Registry           string           `yaml:"registry"`
	Files              []string         `yaml:"files"` // patterns relative to Dir: this region's own rendering
	AllowedDifferences []string         `yaml:"allowed_differences"`
	Endpoints          []string         `yaml:"endpoints"` // base URLs of engines in production
	Capacity           Capacity         `yaml:"capacity"`
	Canary             Canary           `yaml:"canary"`
	Routers            []Router         `yaml:"routers"`
}

// S3 is how a bucket is reached. Credentials come from the usual chain.
type S3 struct {
	Endpoint      string `yaml:"endpoint"`
	Region        string `yaml:"region"` // "": found by asking
	Profile       string `yaml:"profile"`
	AssumeRole    string `yaml:"assume_role"`
	PathStyle     bool   `yaml:"path_style"`
	Checksums     string `yaml:"checksums" strict:"enum=auto|when-required"`
	KMSKey        string `yaml:"kms_key"`
	RequesterPays bool   `yaml:"requester_pays"`
}

// Capacity is what is reserved in a region for the day it takes over.
type Capacity struct {
	Replicas       int    `yaml:"replicas" strict:"min=1"`
	GPUsPerReplica int    `yaml:"gpus_per_replica" strict:"min=0"`
	Reservation    string `yaml:"reservation"`
}

// Canary says how a replica is booted from this region's copy.
type Canary struct {
	Launcher string   `yaml:"launcher" strict:"enum=process|kubernetes"`
	Command  []string `yaml:"command"` // process: with {{model}}, {{port}} and so on
	Weights  string   `yaml:"weights" strict:"enum=as-deployed|restore"`

	// Of launcher kubernetes.
	Context       string   `yaml:"context"`
	Namespace     string   `yaml:"namespace"` // "": the context's
	Workload      string   `yaml:"workload"`  // Kind/name in the deploy files; "": the one that starts the engine
	Container     string   `yaml:"container"` // "": the one that starts the engine
	Reach         string   `yaml:"reach" strict:"enum=port-forward|direct"`
	PriorityClass string   `yaml:"priority_class"` // "": one that never pre-empts is looked for
	KeepLabels    []string `yaml:"keep_labels"`    // keys of production's labels and annotations
	Patches       []string `yaml:"patches"`        // files, relative to Dir
}

// Router is one residency partition of a production router, all its replicas.
type Router struct {
	Name     string          `yaml:"name" strict:"required"`
	Driver   string          `yaml:"driver" strict:"required,enum=vllm-router|sglang|prodstack|gateway-api|reference|command"`
	Replicas []RouterReplica `yaml:"replicas" strict:"required"`
	Serves   []string        `yaml:"serves"`  // names of traffic classes; empty for the region's only router: all
	Apply    []string        `yaml:"apply"`   // driver command: changes the workers
	Observe  []string        `yaml:"observe"` // driver command: says what they are
}

// RouterReplica is where one replica of a router is managed and measured.
type RouterReplica struct {
	Admin   string `yaml:"admin" strict:"required"`
	Metrics string `yaml:"metrics"`
	URL     string `yaml:"url"` // where requests go; "": admin
}

// Edge is what moves users between regions.
type Edge struct {
	Driver  string   `yaml:"driver" strict:"enum=command|gateway-api|arc-routing-control|dns-observe"`
	Apply   []string `yaml:"apply"`
	Observe []string `yaml:"observe"`
}

// Rehearsal says what stands in for production in a rehearsal.
type Rehearsal struct {
	Source string          `yaml:"source" strict:"enum=canary|endpoints"`
	Router RehearsalRouter `yaml:"router"`
}

// RehearsalRouter is the router that drkit starts itself. An empty command means
// the driver's own.
type RehearsalRouter struct {
	Driver  string   `yaml:"driver" strict:"enum=vllm-router|sglang|prodstack|gateway-api|reference|command"`
	Command []string `yaml:"command"` // with {{port}}
}

// Shapes of requests. A cache-aware policy may see only one of them.
const (
	ShapeText     = "text"      // prompts as text
	ShapeTokenIDs = "token-ids" // prompts as lists of token ids
)

// Traffic is one class of requests and where it may be answered.
type Traffic struct {
	Name      string             `yaml:"name" strict:"required"`
	Residency []region.Residency `yaml:"residency" strict:"required"`
	Share     float64            `yaml:"share" strict:"min=0,max=1"` // of all requests
	Shape     string             `yaml:"shape" strict:"enum=text|token-ids"`
}

// Objectives are what a recovery promises.
type Objectives struct {
	RTO       time.Duration `yaml:"rto" strict:"min=1s"`             // declared → steady
	TTFTP99   time.Duration `yaml:"ttft_p99" strict:"min=0s"`        // 0: not promised
	ErrorRate float64       `yaml:"error_rate" strict:"min=0,max=1"` // of requests
	Steady    Steady        `yaml:"steady"`
	Soak      time.Duration `yaml:"soak" strict:"min=0s"`            // after steady; 0: none
	CacheWarm float64       `yaml:"cache_warm" strict:"min=0,max=1"` // share of the baseline's hit rate; 0: not asked
	MustProve []string      `yaml:"must_prove" strict:"enum=copy|boot|behaviour|router|edge|full-capacity|cache-aware"`
}

// Steady says when traffic counts as steady: Windows in a row of length Window,
// each with at least MinRequests requests at Load of production's rate.
type Steady struct {
	Windows     int           `yaml:"windows" strict:"min=1"`
	Window      time.Duration `yaml:"window" strict:"min=1s"`
	MinRequests int           `yaml:"min_requests" strict:"min=1"`
	Load        float64       `yaml:"load" strict:"min=0,max=1"`
}

// Waiver accepts a finding (by rule) or a gap (by path) until it expires.
type Waiver struct {
	Rule    string `yaml:"rule"`
	Path    string `yaml:"path"`
	Reason  string `yaml:"reason" strict:"required"`
	Owner   string `yaml:"owner" strict:"required"`
	Expires Date   `yaml:"expires" strict:"required"` // judged when it is checked, not at load

	Line int
}

// Run says where runs are kept.
type Run struct {
	Dir    Location `yaml:"dir"`
	Ledger Location `yaml:"ledger"` // zero: the folder ledger beneath Dir
}

// Source is the region that the release comes from. Load saw that there is one.
func (s *Service) Source() *Region {
	for i := range s.Regions {
		if s.Regions[i].Role == region.Source {
			return &s.Regions[i]
		}
	}
	return nil
}

// Targets are the regions that can take over, in the file's order.
func (s *Service) Targets() (targets []*Region) {
	for i := range s.Regions {
		if s.Regions[i].Role == region.Target {
			targets = append(targets, &s.Regions[i])
		}
	}
	return targets
}

// Region returns the region of that name, or nil.
func (s *Service) Region(name string) *Region {
	for i := range s.Regions {
		if s.Regions[i].Name == name {
			return &s.Regions[i]
		}
	}
	return nil
}

// Abs resolves a path of the file: relative ones start from its folder.
func (s *Service) Abs(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(s.Dir, path)
}

// PlaybookFile returns the absolute path of the playbook when the service names
// a file; ok is false when it names a built-in playbook.
func (s *Service) PlaybookFile() (path string, ok bool) {
	p := s.Playbook
	if !strings.ContainsAny(p, `/\`) && !strings.HasSuffix(p, ".yaml") && !strings.HasSuffix(p, ".yml") {
		return "", false
	}
	return s.Abs(p), true
}
