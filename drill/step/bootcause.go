package step

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"drkit/drill/bootlog"
	"drkit/manifest/rules"
)

// how is the way in which a canary ended, "" while it runs.
func (r *replica) how() string {
	how, _ := r.ended()
	return how
}

// outside reports whether an engine was ended from outside: by a signal, or with the
// status that a shell or vLLM gives for one.
func outside(how string) bool {
	return slices.ContainsFunc([]string{"exit status 130", "exit status 137", "exit status 143", "signal: terminated", "signal: killed"}, func(end string) bool { return strings.HasPrefix(how, end) })
}

// explain adds to a failure's class what the log alone does not say: which file of a
// hub is meant, and whether a time limit had run out when the engine was ended.
func (b boot) explain(f bootlog.Failure, watch *logWatch, exited bool) bootlog.Failure {
	switch f.Class {
	case bootlog.OfflineAsset:
		f.Hint = b.missingAsset(watch) + "; " + f.Hint
	case bootlog.ProbeBudget:
		return b.budget(f, watch.length(), exited)
	}
	return f
}

// missingAsset names what the engine looked for on a hub: what its own lines say, else
// what the release's manifest knows to be outside of it.
func (b boot) missingAsset(watch *logWatch) string {
	if model := bootlog.HubModel(watch.texts()); model != "" {
		return "the engine was told to serve " + model + ", which is no path"
	}
	var known []string
	for _, f := range rules.Check(b.w.manifest) {
		if slices.Contains([]string{"C-5", "C-7", "C-16", "L-7", "D-1"}, f.Rule) {
			known = append(known, fmt.Sprintf("%s: %s", strings.TrimSpace(f.Path+" "+f.Field), f.Message))
		}
	}
	if len(known) == 0 {
		return "the log names no file and no repository, and the manifest knows of nothing outside of the release"
	}
	return "the log names no file and no repository; by the manifest this is outside of the release: " + first(known, 3)
}

// budget judges an end from outside by the time limits of the deploy files. It is a
// matter of the budget only where the engine had used up the smallest one.
func (b boot) budget(f bootlog.Failure, had time.Duration, exited bool) bootlog.Failure {
	for _, p := range b.w.manifest.Annotations.Pods {
		if p.Region != "" && p.Region != b.w.Target.Name || len(p.Limits) == 0 {
			continue
		}
		limit := time.Duration(p.Limits[0].Seconds) * time.Second
		if exited && had >= limit {
			f.Hint = fmt.Sprintf("the engine had %v, and container %s is given up after %v (%s): the smallest limit has to grow", had.Round(time.Second), p.Container.Name, limit, p.Limits[0].What)
			return f
		}
	}
	f.Class = "Terminated"
	f.Hint = fmt.Sprintf("the engine was ended from outside after %v, and no time limit of the deploy files had run out: who or what ended it?", had.Round(time.Second))
	return f
}
