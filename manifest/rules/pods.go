package rules

import (
	"fmt"
	"slices"
	"strings"

	"drkit/manifest"
)

var podRules = []Rule{
	{"K-UID", manifest.Degraded, "the engine runs as a user without a name",
		"A container that runs as a number says USER, and HOME, in its environment.", namelessUser},
	{"K-PROBE", manifest.Info, "the limits of the engine's start",
		"Every time limit of the engine's start is larger than the start takes.", startLimits},
}

// root is the only user that every image names.
const root = 0

func namelessUser(v *view) (out []manifest.Finding) {
	for _, p := range v.m.Annotations.Pods {
		numbered := p.User != nil && *p.User != root
		if !numbered && !p.NonRoot || p.EnvFrom || slices.Contains(p.Env, "USER") || slices.Contains(p.Env, "LOGNAME") {
			continue
		}
		f := manifest.Finding{Part: string(manifest.Deploy), Path: inRegion(p), Line: p.UserLine, Field: "runAsUser",
			Seen: "KeyError: 'getpwuid(): uid not found: …'",
			Hint: "set USER, and HOME with a writable folder, in the container's environment"}
		if numbered {
			f.Message = fmt.Sprintf("container %s runs as user %d, and neither USER nor LOGNAME is set: an image that does not name this user makes some versions of the engine's libraries end at once, others go on", p.Container.Name, *p.User)
		} else {
			f.Field = "runAsNonRoot"
			f.Message = fmt.Sprintf("container %s must not run as root, so a cluster may choose its user's number, and neither USER nor LOGNAME is set: an image that does not name the user makes some versions of the engine's libraries end at once", p.Container.Name)
		}
		out = append(out, f)
	}
	return out
}

func inRegion(p manifest.PodFacts) string {
	return place(manifest.Problem{Region: p.Region, Path: p.Path})
}

// startLimits lists the limits: whether they are long enough, a measured start
// alone can tell.
func startLimits(v *view) (out []manifest.Finding) {
	for _, p := range v.m.Annotations.Pods {
		if len(p.Limits) == 0 {
			continue
		}
		var all []string
		for _, l := range p.Limits {
			all = append(all, fmt.Sprintf("%d s (%s)", l.Seconds, l.What))
		}
		out = append(out, manifest.Finding{Part: string(manifest.Deploy), Path: inRegion(p), Line: max(p.Limits[0].Line, p.Line), Field: "startupProbe",
			Message: fmt.Sprintf("container %s is given up after %s; no start of this release was measured, so whether that is long enough is not known", p.Container.Name, strings.Join(all, ", ")),
			Seen:    "KeyboardInterrupt: terminated", Hint: "a drill measures the start and compares it with the smallest limit"})
	}
	return out
}
