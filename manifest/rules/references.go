package rules

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"drkit/manifest"
)

var referenceRules = []Rule{
	{"C-7", manifest.Block, "another repository that the model needs is not in the release",
		"Each repository that config.json names for the engine to load is listed under model.repositories in drkit.yaml.", missingRepository},
	{"C-16", manifest.Block, "the engine takes the model from a hub",
		"The engine is given a path of the release, or a hub id whose cache is in it.", modelFromHub},
	{"E-1", manifest.Block, "a part of the model in a folder of its own is missing",
		"A model that is made of several folders has all of them.", missingFolder},
}

// loadsReferences lists the fields that make the engine load another
// repository; the others are left-overs of training.
var loadsReferences = map[string]string{
	"speculators_config.verifier.name_or_path": "", "text_model_id": "ultravox", "audio_model_id": "ultravox",
}

func missingRepository(v *view) (out []manifest.Finding) {
	c := v.base.facts.Config
	if c == nil {
		return nil
	}
	for _, ref := range c.References {
		kind, loads := loadsReferences[ref.Field]
		loads = loads && (kind == "" || kind == c.ModelType)
		if v.further(ref.Name) != nil || v.base.holdsFolder(ref.Name) {
			continue
		}
		f := manifest.Finding{Path: v.base.path("config.json"), Field: ref.Field,
			Message: fmt.Sprintf("%s names the repository %s, which is no part of the release", ref.Field, ref.Name),
			Seen:    "huggingface_hub.errors.LocalEntryNotFoundError", Hint: "list " + ref.Name + " under model.repositories in drkit.yaml"}
		if !loads {
			f.Severity, f.Seen = manifest.Info, ""
			f.Message += "; the engine does not load it for this kind of model"
		}
		out = append(out, f)
	}
	return out
}

// holdsFolder reports whether a name is a folder of the repository.
func (r *repo) holdsFolder(name string) bool {
	for p := range r.files {
		if strings.HasPrefix(p, strings.Trim(name, "./")+"/") {
			return true
		}
	}
	return false
}

// defaultModel is what vLLM serves when nothing names a model; whoever starts the
// engine then names the release's.
const defaultModel = "Qwen/Qwen3-0.6B"

// hubID reports whether a model's name is a hub id and not a path or URL.
func hubID(name string) bool {
	org, rest, ok := strings.Cut(name, "/")
	return ok && org != "" && rest != "" && !strings.ContainsAny(rest, "/:") && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "~")
}

// modelFromHub judges an engine that is started with a hub id. With the id of
// the cache that the release comes from it finds the files where the cache says
// which commit the asked-for revision is.
func modelFromHub(v *view) (out []manifest.Finding) {
	seen := map[string]bool{}
	for _, e := range v.m.Annotations.Engine {
		if e.Model == defaultModel || !hubID(e.Model) || seen[e.Model] || e.Env["VLLM_MODEL_REDIRECT_PATH"] != "" {
			continue
		}
		seen[e.Model] = true
		f := manifest.Finding{Part: string(manifest.Engine), Path: manifest.EngineOptionsPath, Field: "model",
			Seen: "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder for the specified revision on the local disk",
			Hint: "give the engine the path of the copy in its region"}
		if f.Path, f.Line = v.place(e, "model"); e.Where["model"] == "" && e.Source != "" {
			f.Part = string(manifest.Deploy)
		}
		origin := v.origin("base")
		asked, _ := e.Options["revision"].(string)
		asked = cmp.Or(asked, "main")
		switch {
		case origin == nil || origin.Repo != e.Model:
			f.Message = fmt.Sprintf("the engine is told to load %s from a hub, and the release is not known to be its cache", e.Model)
			if !v.offline() {
				f.Severity = manifest.Degraded
				f.Message += ": without a network to the hub it does not boot"
			}
		case asked == origin.Commit || origin.Refs == nil || slices.Contains(*origin.Refs, asked):
			continue
		default:
			f = manifest.Finding{Path: v.base.path("refs/" + asked), Seen: f.Seen,
				Message: fmt.Sprintf("the hub cache of %s has no refs/%s: the engine cannot tell which snapshot it is", e.Model, asked),
				Hint:    "copy the cache's refs folder too, or give --revision " + origin.Commit}
		}
		out = append(out, f)
	}
	return out
}

// origin is the commit of a hub that a folder was taken from, where it is known.
func (v *view) origin(tree string) *manifest.Origin {
	for i, o := range v.m.Annotations.Origins {
		if o.Tree == tree {
			return &v.m.Annotations.Origins[i]
		}
	}
	return nil
}

// folders are the models that load a part of themselves from a folder inside.
var folders = map[string][]string{"kimi_audio": {"whisper-large-v3"}, "funaudiochat": {"speech_tokenizer"}}

func missingFolder(v *view) (out []manifest.Finding) {
	c := v.base.facts.Config
	if c == nil {
		return nil
	}
	for _, folder := range folders[c.ModelType] {
		if !v.base.holdsFolder(folder) {
			out = append(out, manifest.Finding{Path: v.base.path(path.Join(folder, "config.json")),
				Message: fmt.Sprintf("a %s model loads a part of itself from the folder %s, which is missing", c.ModelType, folder),
				Seen:    "Cannot find any model weights with `…`", Hint: "copy the model's folders too"})
		}
	}
	return out
}
