package boottruth

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"drkit/manifest"
)

// Case is one repository with what a real engine did with it.
type Case struct {
	ID, Base, Mutation, Model, Outcome, Ref string
	Args                                    []string `json:"engine_args"`
	Env                                     map[string]string
	Rules                                   []string
	Harmless, Control                       bool
	CPU                                     bool `json:"cpu_specific"` // a kernel of the CPU decided
	Ops                                     []Op

	Dir string // that holds bases/
}

// Read reads the cases beneath a folder that holds cases.jsonl and bases/.
func Read(dir string) ([]Case, error) {
	f, err := os.Open(filepath.Join(dir, "cases.jsonl"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []Case
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		c := Case{Dir: dir}
		if err := json.Unmarshal(s.Bytes(), &c); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if s.Err() == nil && len(out) == 0 {
		return nil, fmt.Errorf("%s holds no case", dir)
	}
	return out, s.Err()
}

// Input lays the case out in memory and describes it as drkit.yaml would.
func (c Case) Input() (manifest.Input, error) {
	w := &Tree{Files: map[string][]byte{}, Links: map[string]bool{}, Bases: filepath.Join(c.Dir, "bases")}
	if err := w.addBase(c.Base, "model"); err != nil {
		return manifest.Input{}, err
	}
	for _, o := range c.Ops {
		if err := w.apply(o); err != nil {
			return manifest.Input{}, fmt.Errorf("%s: %w", o.Op, err)
		}
	}
	env := maps.Clone(c.Env)
	env["HF_HUB_OFFLINE"] = "1" // as every case was booted
	in := manifest.Input{Service: "tiny", Model: manifest.Tree{Source: w, Prefix: "model/"},
		Engine: manifest.EngineInput{Kind: "vllm", Version: "0.32.0", Args: c.args(), Env: env}}
	if len(w.beneath("adapter")) > 0 || slices.ContainsFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "ad={W}/adapter") }) {
		in.Adapters = []manifest.Tree{{Name: "ad", Source: w, Prefix: "adapter/"}}
	}
	if strings.Contains(strings.Join(c.Args, " "), `"{W}/draft"`) {
		in.Drafts = []manifest.Tree{{Name: "draft", Source: w, Prefix: "draft/"}}
	}
	if slices.Contains(c.Args, "--config") {
		in.EngineFiles = []manifest.PartFile{{Path: "engine.yaml", Source: w, Key: "engine.yaml"}}
	}
	return in, nil
}

// args are the model and the arguments, with /w for the case's directory.
func (c Case) args() (out []string) {
	for _, a := range append([]string{c.Model}, c.Args...) {
		out = append(out, strings.ReplaceAll(a, "{W}", "/w"))
	}
	return out
}

// Touched are the files of the model part that the case's changes name, and the
// fields of JSON files that they set, as file and dotted path.
func (c Case) Touched() (files, fields []string) {
	place := func(file string) string {
		return strings.Replace(strings.Replace(file, "model/", "base/", 1), "adapter/", "adapters/ad/", 1)
	}
	for _, o := range c.Ops {
		if o.Op == "add_base" || o.Op == "mkdir" {
			continue
		}
		for _, f := range []string{o.File, o.To, o.Other, "model/" + o.BlobOf} {
			if p := place(f); strings.HasPrefix(p, "base/") && p != "base/" || strings.HasPrefix(p, "adapters/") {
				files = append(files, p)
			}
		}
		if o.Anywhere {
			files = append(files, "*.safetensors")
		}
		if o.Op == "json_set" || o.Op == "json_del" || o.Op == "json_cut_list" || o.Op == "json_append" {
			words := []string{}
			for _, w := range o.Path {
				words = append(words, fmt.Sprint(w))
			}
			fields = append(fields, place(o.File)+" "+strings.Join(words, "."))
		}
	}
	return files, fields
}

// Removes reports whether the case takes a file away.
func (c Case) Removes(file string) bool {
	for _, o := range c.Ops {
		if (o.Op == "rm" || o.Op == "rename") && strings.HasSuffix(o.File, strings.TrimPrefix(file, "base")) {
			return true
		}
	}
	return false
}
