package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"drkit/manifest"
	"drkit/manifest/model"
)

// misfitting finds values that the engine refuses while it reads config.json.
func misfitting(v *view) (out []manifest.Finding) {
	for _, r := range v.repos {
		c := r.facts.Config
		if c == nil || len(c.AutoMap) > 0 || v.overridden() || r.mistral {
			continue // code of its own reads it, or the engine reads something else
		}
		all := slices.Concat(c.Misfits, r.activation(), r.heads())
		if len(all) == 0 {
			continue
		}
		f := manifest.Finding{Path: r.path("config.json"), Field: all[0].Field, Message: all[0].What, Seen: all[0].Seen, Hint: "copy config.json again from the model's origin"}
		switch others := len(all) - 1; {
		case others == 1:
			f.Message += fmt.Sprintf("; %s is wrong too", all[1].Field)
		case others > 1:
			f.Message += fmt.Sprintf("; %d other fields are wrong too", others)
		}
		if !v.judgedVersion() {
			f.Severity = manifest.Degraded
			f.Message += "; whether this release of the engine refuses it is not known"
		}
		out = append(out, f)
	}
	return out
}

// encoderActivations are what BertModel's activation may be called.
var encoderActivations = []string{"gelu", "gelu_fast", "gelu_new", "gelu_pytorch_tanh", "relu", "relu2", "silu", "swish", "quick_gelu", "tanh", "sigmoid", "xielu"}

// activation judges hidden_act of the architectures that take few.
func (r *repo) activation() []model.Misfit {
	c, e := r.facts.Config, r.expect()
	if e == nil || c.Activation == "" {
		return nil
	}
	what, allowed, seen := c.Activation, []string{"silu"}, "Unsupported activation: %s. Only silu is supported for now."
	if e.stem != "layers." {
		what, allowed, seen = strings.ToLower(c.Activation), encoderActivations, "Activation function '%s' is not supported."
	}
	if slices.Contains(allowed, what) {
		return nil
	}
	return []model.Misfit{{Field: "hidden_act", What: fmt.Sprintf("hidden_act is %.40q, and this architecture is computed with %s alone", c.Activation, strings.Join(allowed, ", ")),
		Seen: fmt.Sprintf(seen, c.Activation)}}
}

// heads compares the number of attention heads with the hidden size that they share.
func (r *repo) heads() []model.Misfit {
	c, e := r.facts.Config, r.expect()
	shared := e != nil && (e.stem != "layers." || cmp.Or(c.TextType, c.ModelType) == "llama")
	if !shared || c.Heads < 1 || c.Hidden%c.Heads == 0 {
		return nil
	}
	return []model.Misfit{{Field: "num_attention_heads", What: fmt.Sprintf("hidden_size %d is no multiple of num_attention_heads %d", c.Hidden, c.Heads),
		Seen: fmt.Sprintf("The hidden size (%d) is not a multiple of the number of attention heads (%d).", c.Hidden, c.Heads)}}
}

// says is how config.json gives a number, or that it does not.
func (r *repo) says(name string, n int) string {
	if slices.Contains(r.facts.Config.Assumed, name) {
		return fmt.Sprintf("config.json has no %s, which the engine takes to be %d", name, n)
	}
	return fmt.Sprintf("%s is %d", name, n)
}
