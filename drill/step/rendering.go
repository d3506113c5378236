package step

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"drkit/drill"
	"drkit/manifest"
	"drkit/manifest/release"
	"drkit/manifest/rules"
)

// rendered judges what is written for the target: a place of the source that is named
// there is needed on the day that the source is lost. Files of the target's own are
// judged; in one that all regions share it is red too, unless the target has files of
// its own of that part, which may put another in its place: then it is a note.
func (w *World) rendered(ctx context.Context, sc drill.Scope, mode string) error {
	words := w.sourceWords()
	if len(words) == 0 {
		return nil
	}
	own := map[manifest.Part]bool{}
	for _, f := range w.manifest.Contents.Files {
		own[f.Part] = own[f.Part] || f.Region == w.Target.Name && f.Region != ""
	}
	var named, perhaps []string
	looked, meant := 0, w.meant()
	for _, f := range w.manifest.Contents.Files {
		if !ofTarget(f, w.Target.Name) {
			continue
		}
		data, err := readAll(ctx, w.Target.Store, release.Key(release.Prefix(w.Service, w.manifest.Release), f))
		if err != nil {
			return fmt.Errorf("reading %s from region %s: %w", f.Subject(), w.Target.Name, err)
		}
		looked++
		for _, found := range mentions(data, words) {
			text := f.Subject() + ":" + found
			if line, _, _ := strings.Cut(text, " "); meant[line] {
				continue
			}
			if f.Region == "" && own[f.Part] {
				perhaps = append(perhaps, text)
				continue
			}
			named = append(named, text)
		}
	}
	named = append(named, w.mentionsInCommand(words)...)
	if len(perhaps) > 0 {
		note := "a file that all regions share names the source; whether the target's own files put another place there is not known: " + first(perhaps, 3)
		if err := sc.Emit(drill.TypeNote, drill.Note{Text: note}); err != nil {
			return err
		}
	}
	g := drill.Gate{ID: "independent", Title: "what is written for " + w.Target.Name + " names no place of " + w.Source.Name, Expected: "no bucket, registry or endpoint of the source in the target's files, arguments and environment",
		Observed: fmt.Sprintf("none in %d files and the canary's command", looked), Result: result(len(named) == 0), Evidence: "the release's files in the target's copy, and drkit.yaml", Hint: "give the target a rendering of its own (regions[].files) that names its own places"}
	if len(named) > 0 {
		g.Observed = first(named, 3)
	}
	return demand(sc, g, mode, "the target is not shown to be independent of the source, and that is not demanded")
}

// meant are the lines, as SUBJECT:LINE, where a waiver of rule R-1 says that naming
// another region is meant.
func (w *World) meant() map[string]bool {
	lines := map[string]bool{}
	for _, f := range rules.Apply(rules.Check(w.manifest), w.Waivers, time.Now()) {
		if f.Rule == "R-1" && f.Waived != "" {
			lines[fmt.Sprintf("%s/%s:%d", f.Part, f.Path, f.Line)] = true
		}
	}
	return lines
}

// ofTarget are the files by which the target is run: its own and those of all regions.
// The model is the same everywhere, and recordings and lock files start nothing.
func ofTarget(f manifest.File, target string) bool {
	if slices.Contains([]string{".md", ".txt", ".rst"}, path.Ext(f.Path)) {
		return false // for people
	}
	switch f.Role {
	case manifest.Kubernetes, manifest.Dockerfile, manifest.EngineConfig, manifest.EngineOptions, manifest.Other:
		return (f.Part == manifest.Deploy || f.Part == manifest.Engine) && (f.Region == "" || f.Region == target)
	}
	return false
}

// sourceWord is what names a place of the source, and how it is recognised.
type sourceWord struct {
	what string
	form *regexp.Regexp
}

// sourceWords leaves out what the target's own places are called by too.
func (w *World) sourceWords() (all []sourceWord) {
	shared := map[string]bool{}
	for _, a := range w.Target.Addresses {
		for _, word := range a.Words {
			shared[word] = true
		}
	}
	for _, a := range w.Source.Addresses {
		for _, word := range a.Words {
			if word == "" || shared[word] || sameMachine(hostOf("x://"+word)) {
				continue
			}
			shared[word] = true
			form := `(?i)(?:^|[^a-z0-9._-])` + regexp.QuoteMeta(word) + `(?:$|[^a-z0-9_-])`
			all = append(all, sourceWord{a.What, regexp.MustCompile(form)})
		}
	}
	return all
}

// mentions are the lines of a file that name a place, without their text: it may hold a
// secret.
func mentions(data []byte, words []sourceWord) (found []string) {
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte("#")) {
			continue // a comment runs nothing
		}
		for _, word := range words {
			text := fmt.Sprintf("%d names %s of the source", n, word.what)
			if word.form.Match(line) && !slices.Contains(found, text) {
				found = append(found, text)
			}
		}
	}
	return found
}

func (w *World) mentionsInCommand(words []sourceWord) (found []string) {
	for _, word := range words {
		for i, arg := range w.Target.Command {
			if word.form.MatchString(arg) {
				found = append(found, fmt.Sprintf("canary.command[%d] of region %s names %s of the source", i, w.Target.Name, word.what))
			}
		}
		for name, value := range w.Target.Env {
			if word.form.MatchString(strings.TrimSpace(value)) {
				found = append(found, fmt.Sprintf("variable %s of region %s's canary names %s of the source", name, w.Target.Name, word.what))
			}
		}
	}
	return found
}
