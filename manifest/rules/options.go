package rules

import (
	"slices"
	"strconv"
	"strings"

	"drkit/manifest"
	"drkit/manifest/engine"
)

// option is an engine option as text, of the first region that sets it; "" when
// none does.
func (v *view) option(name string) string {
	value, ok := v.optionValue(name)
	if s, isText := value.(string); ok && isText {
		return s
	}
	return ""
}

func (v *view) optionValue(name string) (any, bool) {
	for _, e := range v.m.Annotations.Engine {
		if value, ok := e.Options[name]; ok && value != nil {
			return value, true
		}
	}
	return nil, false
}

// number is an engine option as a number.
func (v *view) number(name string) (float64, bool) {
	value, _ := v.optionValue(name)
	return asNumber(value)
}

// asNumber reads a number of an option; engine facts that passed through JSON hold
// float64.
func asNumber(value any) (float64, bool) {
	switch n := value.(type) {
	case int:
		return float64(n), true
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// integer is an engine option as a whole number.
func (v *view) integer(name string) (int, bool) {
	n, ok := v.number(name)
	return int(n), ok
}

func (v *view) truth(name string) bool {
	value, _ := v.optionValue(name)
	b, _ := value.(bool)
	return b
}

// env is an environment variable of the engine, of the first region that sets
// it; "" when none does.
func (v *view) env(name string) string {
	for _, e := range v.m.Annotations.Engine {
		if value := e.Env[name]; value != "" {
			return value
		}
	}
	return ""
}

// offline reports whether the engine is told to do without a hub.
func (v *view) offline() bool {
	for _, name := range []string{"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"} {
		switch strings.ToLower(v.env(name)) {
		case "1", "true", "yes", "on":
			return true
		}
	}
	return false
}

// at begins a finding on an engine option at the place that sets it: a line of
// an engine file, a deploy file's command, or drkit.yaml.
func (v *view) at(option string) manifest.Finding {
	f := manifest.Finding{Part: string(manifest.Engine), Path: manifest.EngineOptionsPath, Field: option}
	for _, e := range v.m.Annotations.Engine {
		if value, ok := e.Options[option]; !ok || value == nil {
			continue
		}
		f.Path, f.Line = v.place(e, option)
		if e.Where[option] == "" && e.Source != "" {
			f.Part = string(manifest.Deploy)
		}
		return f
	}
	return f
}

// place is where an engine's option stands.
func (v *view) place(e engineFacts, option string) (string, int) {
	if at := e.Where[option]; at != "" {
		return splitPlace(at)
	}
	if e.Source == "" {
		return manifest.EngineOptionsPath, 0
	}
	file, line := splitPlace(e.Source)
	if e.Region != "" && v.hasOwn(e.Region, file) {
		file = "@" + e.Region + "/" + file
	}
	return file, line
}

// hasOwn reports whether a deploy file is a region's own: an engine of a region
// may also be started by a file of every region.
func (v *view) hasOwn(region, file string) bool {
	return slices.ContainsFunc(v.m.Contents.Files, func(f manifest.File) bool {
		return f.Part == manifest.Deploy && f.Region == region && f.Path == file
	})
}

// splitPlace divides "path:line".
func splitPlace(at string) (string, int) {
	i := strings.LastIndexByte(at, ':')
	if i < 0 {
		return at, 0
	}
	line, err := strconv.Atoi(at[i+1:])
	if err != nil {
		return at, 0
	}
	return at[:i], line
}

// object is an engine option that holds a JSON object.
func (v *view) object(name string) map[string]any {
	value, _ := v.optionValue(name)
	object, _ := value.(map[string]any)
	return object
}

// onlySGLang reports whether every engine of the release is SGLang.
func (v *view) onlySGLang() bool {
	engines := v.m.Annotations.Engine
	return len(engines) > 0 && !slices.ContainsFunc(engines, func(e engineFacts) bool { return e.Kind != engine.SGLang })
}
