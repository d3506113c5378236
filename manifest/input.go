package manifest

import (
	"drkit/internal/progress"
	"drkit/internal/store"
)

// Input is what Build makes a manifest from. The command maps drkit.yaml onto it.
type Input struct {
	Service  string
	Tool     string // version of drkit, an annotation
	Model    Tree
	Adapters []Tree // each with its name
	Drafts   []Tree // each with its name
	// Repositories are further ones that the release takes code or files from,
	// each named by its hub id, such as "acme/impl".
	Repositories []Tree
	Engine       EngineInput
	EngineFiles  []PartFile
	DeployFiles  []PartFile
	Images       []string // references that stand in drkit.yaml itself
	Regions      []RegionSummary
	Workers      int // files hashed at once; 0: one a core
	Progress     progress.Progress
}

// Tree is a folder: everything in Source beneath Prefix, a string that ends in
// "/" or is empty.
type Tree struct {
	Name     string // of an adapter, draft or further repository
	Source   store.Source
	Prefix   string
	Revision string // the commit that a further repository was copied at; "" when not known
}

// EngineInput is what drkit.yaml itself says of the engine. It becomes a
// generated file of the engine part; the caller has refused secrets in it.
type EngineInput struct {
	Kind    string            `json:"kind,omitempty"` // vllm or sglang
	Version string            `json:"version,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// PartFile is one file of the engine or deploy part. Path is where it lies in
// its part, Key where Source holds it.
type PartFile struct {
	Region string // empty: the same in every region
	Path   string
	Role   Role // empty: judged by its name
	Source store.Source
	Key    string
}
