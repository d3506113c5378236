package rules

import (
	"fmt"
	"slices"

	"drkit/manifest"
	"drkit/manifest/engine"
)

var engineRules = []Rule{
	{"E-2", manifest.Block, "the engine's configuration does not parse",
		"The engine's configuration file is YAML of long option names that this version has, and its flags are known.", engineExits},
	{"E-3", manifest.Silent, "a configuration file is never read",
		"The configuration file is given as --config FILE, in two words.", configIgnored},
	{"E-4", manifest.Block, "more than one configuration file",
		"There is at most one --config.", twoConfigs},
	{"E-5", manifest.Degraded, "an option does not do what it says",
		"Each option is given once, with a value that takes effect.", optionDropped},
	{"E-7", manifest.Block, "the attention heads cannot be divided",
		"The number of attention heads is a multiple of tensor-parallel-size.", undividedHeads},
	{"E-6", manifest.Info, "the engine's configuration is not judged whole",
		"The engine is vLLM in a version whose options are known.", notJudged},
}

// exits are the kinds of problems on which the engine ends before it loads a model.
var exits = []string{
	engine.KindSyntax, engine.KindNotMapping, engine.KindBadKey, engine.KindUnknownOption, engine.KindAmbiguousOption,
	engine.KindExtraValue, engine.KindBadSuffix, engine.KindBadValue, engine.KindUnknownField,
	engine.KindMissingCompanion, engine.KindTemplateMissing, engine.KindExitsAtOnce,
}

// dropped are the kinds that change what an option does, without an error.
var dropped = []string{
	engine.KindDuplicateKey, engine.KindRepeatedOption, engine.KindNullValue, engine.KindFalseDropped, engine.KindOverridden,
	engine.KindModelTwice, engine.KindModelIgnored, engine.KindPlainSecret, engine.KindUnreadVariable, engine.KindFieldDropped,
}

// unjudged are the kinds that keep the prediction from being whole, and notes.
var unjudged = []string{
	engine.KindUncertainValue, engine.KindAbbreviated, engine.KindDeprecated, engine.KindOtherCommand, engine.KindOtherVersion, engine.KindNotJudged,
}

// engineProblems turns the problems of some kinds into findings. Problems of
// other parts' readers share kinds such as yaml-syntax; only those of the
// engine part and of flags in deploy files are meant.
func (v *view) engineProblems(hint string, kinds ...string) (out []manifest.Finding) {
	for _, p := range v.m.Annotations.Problems {
		if p.Part == manifest.Model || !slices.Contains(kinds, p.Kind) || p.Part == manifest.Deploy && slices.Contains(ofDeploy, p.Kind) {
			continue
		}
		out = append(out, manifest.Finding{Part: string(p.Part), Path: place(p), Line: p.Line, Message: p.What, Seen: p.Seen, Hint: hint})
	}
	return out
}

// place is the path of a problem in its part, with its region.
func place(p manifest.Problem) string {
	if p.Region == "" {
		return p.Path
	}
	return "@" + p.Region + "/" + p.Path
}

func engineExits(v *view) []manifest.Finding {
	return v.engineProblems("mend the option; run the engine with --help to see the options of its version", exits...)
}

func configIgnored(v *view) []manifest.Finding {
	return v.engineProblems("write --config and the file as two words, once, on the command line", engine.KindConfigEquals, engine.KindConfigNested)
}

func twoConfigs(v *view) []manifest.Finding {
	return v.engineProblems("join the files into one; when the others are something else, name the engine's with --config in engine.args", engine.KindTwoConfigs)
}

func optionDropped(v *view) []manifest.Finding {
	return v.engineProblems("say what is meant, once", dropped...)
}

func notJudged(v *view) []manifest.Finding {
	out := v.engineProblems("", unjudged...)
	for _, f := range v.engineProblems("list the file under engine.configs in drkit.yaml", engine.KindConfigMissing) {
		f.Severity = manifest.Degraded
		out = append(out, f)
	}
	for _, e := range v.m.Annotations.Engine {
		if e.Kind != engine.VLLM && e.Kind != engine.SGLang {
			out = append(out, manifest.Finding{Part: string(manifest.Engine), Path: manifest.EngineOptionsPath,
				Message: "the options of " + e.Kind + " are hashed and compared, but not judged"})
		}
	}
	return out
}

func undividedHeads(v *view) []manifest.Finding {
	c := v.base.facts.Config
	ways, ok := v.integer("tensor_parallel_size")
	if c == nil || c.Heads == 0 || !ok || ways < 1 || c.Heads%ways == 0 {
		return nil
	}
	f := v.at("tensor_parallel_size")
	f.Message = fmt.Sprintf("the model has %d attention heads, which %d ways of tensor parallelism do not divide", c.Heads, ways)
	f.Seen = fmt.Sprintf("Total number of attention heads (%d) must be divisible by tensor parallel size (%d).", c.Heads, ways)
	f.Hint = "choose a tensor-parallel-size that divides the heads"
	return []manifest.Finding{f}
}
