package diff

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"drkit/manifest"
)

// engine is one start of an engine, with what it is found by on the other side.
type engine struct {
	key string
	manifest.EngineFacts
}

// starts are the engines of a side: of a region those that are its own; what
// drkit.yaml says for every region counts where it has none of that kind.
func (s Side) starts() (all []engine) {
	seen := map[string]int{}
	for _, e := range s.Manifest.Annotations.Engine {
		if s.Region != "" && e.Region != s.Region && (e.Region != "" || e.Source == "" && s.ownStart()) {
			continue
		}
		file, _, _ := strings.Cut(e.Source, ":")
		key := strings.Join([]string{e.Region, file}, "\t")
		if s.Region != "" {
			key = s.neutral(e.Region, file)
		}
		seen[key]++
		all = append(all, engine{fmt.Sprintf("%s\t%d", key, seen[key]), e})
	}
	return all
}

// ownStart reports whether the region has engine files of its own.
func (s Side) ownStart() bool {
	return slices.ContainsFunc(s.Manifest.Annotations.Engine, func(e manifest.EngineFacts) bool { return e.Source == "" && e.Region == s.Region })
}

// engines compares what the engines make of their configuration.
func (c *comparison) engines() {
	eachPair(c.from.starts(), c.to.starts(), func(e engine) string { return e.key }, func(_ string, x, y *engine) {
		switch {
		case x == nil:
			c.add(oneEngine(y.EngineFacts, manifest.Silent, "is started besides"))
		case y == nil:
			c.add(oneEngine(x.EngineFacts, manifest.Block, "is not started any more"))
		default:
			c.engine(x.EngineFacts, y.EngineFacts)
		}
	})
}

func oneEngine(e manifest.EngineFacts, severity manifest.Severity, what string) Difference {
	d := startOf(e)
	d.Severity, d.Kind, d.Message = severity, KindEngine, fmt.Sprintf("an engine (%s) %s", e.Kind, what)
	return d
}

// startOf is where an engine is started.
func startOf(e manifest.EngineFacts) Difference {
	file, _, _ := strings.Cut(e.Source, ":")
	d := Difference{Part: manifest.Deploy, Region: e.Region, Path: file}
	if e.Source == "" {
		d.Part, d.Path = manifest.Engine, manifest.EngineOptionsPath
	}
	return d
}

// optionValues is what is compared of an engine, by section.
func optionValues(e manifest.EngineFacts) map[string]map[string]any {
	out := map[string]map[string]any{"": {}, "env": {}, "option": {}}
	for name, v := range map[string]string{"kind": e.Kind, "version": e.Version, "model": e.Model, "exits": e.Exits} {
		if v != "" {
			out[""][name] = v
		}
	}
	for name, v := range e.Env {
		out["env"][name] = v
	}
	if options, ok := tree(e.Options).(map[string]any); ok {
		out["option"] = options
	}
	return out
}

func (c *comparison) engine(from, to manifest.EngineFacts) {
	x, y := optionValues(from), optionValues(to)
	where := func(name string) Difference {
		d := startOf(to)
		if at := lineOf(to, name); at != "" {
			d.Path = at
		} else if at := lineOf(from, name); at != "" {
			d.Path = c.counterpart(at)
		}
		return d
	}
	walkMaps(x["option"], y["option"], nil, func(at []string, v, w any) {
		d, name := where(at[0]), strings.Join(at, ".")
		d.Severity, d.Kind, d.Field, d.From, d.To = optionSeverity(at[0]), KindOption, name, plain(v), plain(w)
		d.Message = fmt.Sprintf("engine option %s %s → %s", name, orDefault(v), orDefault(w))
		c.add(d)
	})
	walkMaps(x["env"], y["env"], nil, func(at []string, v, w any) {
		d := startOf(to)
		d.Severity, d.Kind, d.Field, d.From, d.To = manifest.Block, KindEngine, "env."+at[0], plain(v), plain(w)
		d.Message = fmt.Sprintf("engine environment %s %s → %s", at[0], show(v), show(w))
		c.add(d)
	})
	walkMaps(x[""], y[""], nil, func(at []string, v, w any) {
		d := startOf(to)
		d.Severity, d.Kind, d.Field, d.From, d.To = engineFields[at[0]].severity, KindEngine, at[0], plain(v), plain(w)
		d.Message = fmt.Sprintf("%s %s → %s", engineFields[at[0]].name, show(v), show(w))
		c.add(d)
	})
}

// lineOf is the engine file that sets an option, "" when none does.
func lineOf(e manifest.EngineFacts, name string) string {
	file, _, _ := strings.Cut(e.Where[name], ":")
	if e.Source != "" {
		return ""
	}
	return strings.TrimPrefix(file, "@"+e.Region+"/")
}

// counterpart is where the second side has an engine file of the first.
func (c *comparison) counterpart(p string) string {
	for _, one := range c.pairs {
		if one.from != nil && one.to != nil && one.from.Part == manifest.Engine && one.from.Path == p {
			return one.to.Path
		}
	}
	return p
}

var engineFields = map[string]struct {
	name     string
	severity manifest.Severity
}{
	"kind": {"engine", manifest.Block}, "version": {"engine version", manifest.Silent},
	"model": {"model that the engine is started with", manifest.Block}, "exits": {"the engine ends while it reads its configuration:", manifest.Block},
}

func orDefault(v any) string {
	if _, none := v.(absent); none {
		return "default"
	}
	return show(v)
}

// isOptions reports whether a file holds nothing but options of an engine.
func isOptions(f *manifest.File) bool {
	return f.Role == manifest.EngineConfig && (strings.HasSuffix(f.Path, ".yaml") || strings.HasSuffix(f.Path, ".yml"))
}

// judged reports whether what drkit.yaml says of the engine is predicted whole on
// both sides.
func (c *comparison) judged() bool {
	whole := func(s Side) bool {
		all := s.starts()
		return len(all) > 0 && !slices.ContainsFunc(all, func(e engine) bool { return e.Source == "" && !e.Judged })
	}
	return whole(c.from) && whole(c.to)
}

// sameEngines reports whether every engine is predicted whole on both sides, and
// the same: then files of options that differ say the same.
func (c *comparison) sameEngines() bool {
	x, y := c.from.starts(), c.to.starts()
	return len(x) > 0 && slices.EqualFunc(x, y, func(a, b engine) bool {
		return a.Judged && b.Judged && a.key == b.key && a.Exits == "" && b.Exits == "" && reflect.DeepEqual(optionValues(a.EngineFacts), optionValues(b.EngineFacts))
	})
}
