package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"drkit/manifest"
	"drkit/manifest/deploy"
)

var podRules = []Rule{
	{"K-UID", manifest.Degraded, "the engine runs as a user without a name",
		"A container that runs as a number says USER, and HOME, in its environment.", namelessUser},
	{"K-PROBE", manifest.Block, "the limits of the engine's start",
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
			f.Message = fmt.Sprintf("%s runs as user %d, and neither USER nor LOGNAME is set: an image that does not name this user makes some versions of the engine's libraries end at once, others go on", container(p), *p.User)
		} else {
			f.Field = "runAsNonRoot"
			f.Message = fmt.Sprintf("%s must not run as root, so a cluster may choose its user's number, and neither USER nor LOGNAME is set: an image that does not name the user makes some versions of the engine's libraries end at once", container(p))
		}
		out = append(out, f)
	}
	return out
}

// container names a container for people. One may have no name in its file, and a
// manifest of an early version kept none.
func container(p manifest.PodFacts) string {
	if p.Container.Name != "" {
		return "container " + p.Container.Name
	}
	return strings.TrimSuffix(fmt.Sprintf("the container without a name at line %d of %s", p.Line, strings.TrimSpace(p.Kind+" "+p.Name)), " of ")
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
		f := limitFinding(p, p.Limits[0], manifest.Info)
		f.Message = fmt.Sprintf("%s is given up after %s; no start of this release was measured, so whether that is long enough is not known", container(p), listLimits(p.Limits))
		f.Hint = "a drill measures the start and compares it with the smallest limit; so does drkit manifest check --measured-boot"
		out = append(out, f)
	}
	return out
}

func limitFinding(p manifest.PodFacts, smallest deploy.Limit, s manifest.Severity) manifest.Finding {
	field, _, _ := strings.Cut(strings.TrimSuffix(smallest.What, " (default)"), ":")
	if smallest.Line == 0 && !strings.HasPrefix(smallest.What, deploy.ProgressDeadline) {
		field = "startupProbe"
	}
	return manifest.Finding{Rule: "K-PROBE", Severity: s, Part: string(manifest.Deploy), Path: inRegion(p), Line: cmp.Or(smallest.Line, p.Line), Field: strings.TrimPrefix(field, "the engine's own "),
		Seen: "KeyboardInterrupt: terminated"}
}

func listLimits(limits []deploy.Limit) string {
	var all []string
	for _, l := range limits {
		all = append(all, fmt.Sprintf("%d s (%s)", l.Seconds, l.What))
	}
	return strings.Join(all, ", ")
}

// Start is a start of a release's engine that was measured: from the start of its
// process until it served.
type Start struct {
	Took time.Duration
	Pull time.Duration // before it, for the images to be there; 0: not measured, or they were there
	From string        // where that is known from: "the drill 20261130-…"
}

// within is how much of a start runs while a limit does: a rollout's deadline counts
// the pull of images too, an engine's own and its probes' begin with its process.
func (s Start) within(l deploy.Limit) time.Duration {
	if strings.HasPrefix(l.What, deploy.ProgressDeadline) {
		return s.Took + s.Pull
	}
	return s.Took
}

// tightest is the limit with the least room.
func (s Start) tightest(limits []deploy.Limit) deploy.Limit {
	return slices.MinFunc(limits, func(a, b deploy.Limit) int { return cmp.Compare(s.room(a), s.room(b)) })
}

func (s Start) room(l deploy.Limit) time.Duration {
	return time.Duration(l.Seconds)*time.Second - s.within(l)
}

// narrow is how much of the smallest limit a start may take before it is said that
// the next one may not fit.
const narrow = 0.8

// JudgeStart compares a measured start with the limits that a region's deploy files
// set: rule K-PROBE. A limit that is no longer than the start is a block, as the
// engine is ended before it is up, for ever; one that leaves no margin is degraded.
// Region "" takes the files of every region.
func JudgeStart(m *manifest.Manifest, region string, s Start) (out []manifest.Finding) {
	for _, p := range m.Annotations.Pods {
		if len(p.Limits) == 0 || region != "" && p.Region != "" && p.Region != region {
			continue
		}
		smallest := s.tightest(p.Limits)
		limit, needed := time.Duration(smallest.Seconds)*time.Second, s.within(smallest)
		took := s.Took.Round(time.Second / 10).String()
		if s.Pull > 0 {
			took += fmt.Sprintf(" after %v for its images", s.Pull.Round(time.Second/10))
		}
		f := limitFinding(p, smallest, manifest.Info)
		f.Message = fmt.Sprintf("the start took %s (%s), %s is given up after %s: it fits", took, s.From, container(p), listLimits(p.Limits))
		switch {
		case limit <= needed:
			f.Severity = manifest.Block
			f.Message = fmt.Sprintf("the start took %s (%s), %s is given up after %v: %s; all limits: %s", took, s.From, container(p), limit, smallest.What, listLimits(p.Limits))
			f.Hint = fmt.Sprintf("raise the smallest limit well above %v, and each other one that is below it", needed.Round(time.Second/10))
		case needed > time.Duration(narrow*float64(limit)):
			f.Severity = manifest.Degraded
			f.Message = strings.TrimSuffix(f.Message, ": it fits") + ": a start that is a little slower does not fit"
			f.Hint = fmt.Sprintf("raise the smallest limit, which is %v", limit)
		}
		out = append(out, f)
	}
	return out
}

// WithStart replaces what Check says of the start's limits by what a measured start
// shows of them.
func WithStart(findings []manifest.Finding, m *manifest.Manifest, s Start) []manifest.Finding {
	all := slices.DeleteFunc(slices.Clone(findings), func(f manifest.Finding) bool { return f.Rule == "K-PROBE" })
	all = append(all, JudgeStart(m, "", s)...)
	sortFindings(all)
	return all
}
