package rules

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"drkit/manifest"
)

// fromLayer is a module's name from its first number's parent on, so that
// prefixes that differ between adapter and base do not matter.
var fromLayer = regexp.MustCompile(`[A-Za-z_]+\.\d+\..*$`)

func moduleKey(module string) string {
	return cmp.Or(fromLayer.FindString(module), module)
}

func adapterMisses(v *view) (out []manifest.Finding) {
	r := v.base
	if len(v.adapters) == 0 || !v.findable(r) {
		return nil
	}
	base := map[string]bool{}
	for name := range r.tensors {
		module, _ := split(name)
		base[moduleKey(module)] = true
	}
	for _, a := range v.adapters {
		modules := a.modules()
		inert := slices.DeleteFunc(slices.Clone(modules), func(m string) bool { return base[m] || fusedInto(m, base) })
		switch strange := strangeModule(inert, base); {
		case strange != "":
			out = append(out, manifest.Finding{Severity: manifest.Block, Path: a.path(a.facts.Weights), Field: strange,
				Message: fmt.Sprintf("adapter %s has tensors for %s, and the base model has no module of that name in any layer", a.facts.Name, strange),
				Seen:    fmt.Sprintf("While loading …, expected target modules in {…} but received ['%s'].", strange),
				Hint:    "the adapter was trained on another model, or its tensors were renamed"})
		case len(modules) > 0 && len(inert) == len(modules):
			out = append(out, manifest.Finding{Path: a.path(a.facts.Weights), Field: inert[0],
				Message: fmt.Sprintf("none of the %d modules of adapter %s is in the base model (%s is not): the engine serves the base model's answers under the adapter's name", len(modules), a.facts.Name, inert[0]),
				Hint:    "the adapter was trained on another model, or its tensors were renamed"})
		case len(modules) > 0:
			if target := a.lostTarget(modules, base); target != "" {
				out = append(out, manifest.Finding{Path: a.path(a.facts.Weights), Field: target,
					Message: fmt.Sprintf("adapter_config.json of adapter %s targets %s, which the base model has, and no tensor is for it: a part of the adapter is lost", a.facts.Name, target),
					Hint:    "copy the adapter again from its origin"})
			} else if lost := a.lostLayers(modules, base); len(lost) > 0 {
				out = append(out, manifest.Finding{Path: a.path(a.facts.Weights), Field: lost[0],
					Message: fmt.Sprintf("adapter %s changes this kind of module in other layers, and has nothing for %s: a part of it is lost", a.facts.Name, count(lost)),
					Hint:    "copy the adapter again from its origin"})
			}
		}
	}
	return out
}

// lostTarget is a module that target_modules names, that the base model has, and
// for which the adapter has no tensor in any layer.
func (a *adapter) lostTarget(modules []string, base map[string]bool) string {
	if a.facts.Partial {
		return ""
	}
	for _, target := range a.facts.Targets {
		ends := func(m string) bool { return m == target || strings.HasSuffix(m, "."+target) }
		if !slices.ContainsFunc(modules, ends) && slices.ContainsFunc(slices.Collect(maps.Keys(base)), ends) {
			return target
		}
	}
	return ""
}

// modules lists the modules that the adapter's tensors change, by key, sorted.
func (a *adapter) modules() (out []string) {
	set := map[string]bool{}
	for name := range a.facts.Tensors {
		if module, _, ok := strings.Cut(name, ".lora_"); ok {
			set[moduleKey(strings.TrimPrefix(module, "base_model.model."))] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// strangeModule is a module whose last name no module of the base has: the engine
// refuses such an adapter. One whose path alone is wrong it takes in silence.
func strangeModule(inert []string, base map[string]bool) string {
	names := map[string]bool{"lm_head": true, "embed_tokens": true}
	for m := range base {
		name := m[strings.LastIndexByte(m, '.')+1:]
		names[name] = true
		for part, joint := range fused {
			names[part] = names[part] || name == joint
		}
	}
	for _, m := range inert {
		if name := m[strings.LastIndexByte(m, '.')+1:]; !names[name] && !strings.Contains(m, "experts") {
			return m
		}
	}
	return ""
}

// fusedInto reports whether a module stands in the base under the name of a
// fused one, or is the part of an expert that the base stores in one.
func fusedInto(module string, base map[string]bool) bool {
	at := strings.LastIndexByte(module, '.') + 1
	return fused[module[at:]] != "" && base[module[:at]+fused[module[at:]]] || strings.Contains(module, ".experts")
}

// lostLayers lists the modules of the base that an adapter changes in most
// layers but not in these. PEFT writes every layer, unless the configuration
// says otherwise.
func (a *adapter) lostLayers(modules []string, base map[string]bool) (lost []string) {
	if a.facts.Partial {
		return nil
	}
	suffixes := map[string]bool{}
	for _, m := range modules {
		if k := layerName.FindStringSubmatch(m); k != nil {
			suffixes[k[2]+".#."+k[4]] = true
		}
	}
	have, want := 0, 0
	for module := range base {
		k := layerName.FindStringSubmatch(module)
		if k == nil || !suffixes[k[2]+".#."+k[4]] {
			continue
		}
		want++
		if slices.Contains(modules, module) {
			have++
		} else {
			lost = append(lost, module)
		}
	}
	if 2*have <= want {
		return nil // it was trained on some layers only
	}
	slices.Sort(lost)
	return lost
}
