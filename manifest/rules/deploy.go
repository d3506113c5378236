package rules

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"drkit/manifest"
	"drkit/manifest/deploy"
)

var deployRules = []Rule{
	{"I-1", manifest.Block, "an image is not pinned",
		"Every image is named by its digest.", unpinnedImage},
	{"I-2", manifest.Degraded, "a deploy file cannot be read whole",
		"Deploy files are rendered, valid YAML or Dockerfiles without secrets in plain text.", unreadDeploy},
}

// ofDeploy are the kinds of problems that are the deploy reader's own.
var ofDeploy = []string{
	deploy.KindSyntax, deploy.KindTemplate, deploy.KindDockerfile, deploy.KindImageInvalid, deploy.KindImageUnresolved,
	deploy.KindPlainSecret, deploy.KindShellCommand, deploy.KindEngineEnv, deploy.KindEngineRuntime,
	manifest.KindImageMissing, manifest.KindImageUntrue,
}

// unpinnedImage judges what a region would start. A tag can be moved, so that
// the target starts something else than the source did; with latest or no tag it
// certainly will. A Dockerfile's base image is needed to build only.
func unpinnedImage(v *view) (out []manifest.Finding) {
	for _, i := range v.m.Contents.Images {
		if i.Digest.Hex != "" || i.Reference == "scratch" {
			continue
		}
		f := manifest.Finding{Part: string(manifest.Deploy), Path: i.Reference, Severity: manifest.Degraded, Field: "image",
			Message: fmt.Sprintf("image %s is not pinned by digest: the tag can be moved between now and a recovery", i.Reference),
			Hint:    "pin it: " + repository(i.Reference) + "@sha256:…"}
		f.Path, f.Line = v.firstPlace(i)
		if floating(i.Reference) && !v.builds(i) {
			f.Severity = manifest.Block
			f.Message = fmt.Sprintf("image %s has the tag latest, or none: the target will start another image than the source", i.Reference)
		}
		out = append(out, f)
	}
	return out
}

// floating reports whether a reference has no tag, or latest.
func floating(reference string) bool {
	name := reference[strings.LastIndexByte(reference, '/')+1:]
	_, tag, tagged := strings.Cut(name, ":")
	return !tagged || tag == "latest"
}

// repository is a reference without its tag.
func repository(reference string) string {
	slash := strings.LastIndexByte(reference, '/') + 1
	name, _, _ := strings.Cut(reference[slash:], ":")
	return reference[:slash] + name
}

// firstPlace is where an image is named first; the reference itself when only
// drkit.yaml names it.
func (v *view) firstPlace(i manifest.Image) (string, int) {
	if len(i.Files) == 0 {
		return i.Reference, 0
	}
	file, line, n := i.Files[0], "", 0
	if at := strings.LastIndexByte(file, ':'); at > 0 {
		file, line = file[:at], file[at+1:]
		n, _ = strconv.Atoi(line)
	}
	if i.Region != "" {
		file = "@" + i.Region + "/" + file
	}
	return file, n
}

// builds reports whether only Dockerfiles name the image.
func (v *view) builds(i manifest.Image) bool {
	for _, place := range i.Files {
		file, _, _ := strings.Cut(place, ":")
		if !dockerfile(file) {
			return false
		}
	}
	return len(i.Files) > 0
}

func dockerfile(file string) bool {
	lower := strings.ToLower(path.Base(file))
	return strings.Contains(lower, "dockerfile") || strings.Contains(lower, "containerfile")
}

func unreadDeploy(v *view) (out []manifest.Finding) {
	for _, p := range v.m.Annotations.Problems {
		if p.Part != manifest.Deploy {
			continue
		}
		for _, kind := range ofDeploy {
			if p.Kind != kind {
				continue
			}
			f := manifest.Finding{Part: string(p.Part), Path: place(p), Line: p.Line, Message: p.What, Seen: p.Seen,
				Hint: "list the rendered file; what drkit cannot read it cannot prove"}
			switch kind {
			case deploy.KindSyntax, deploy.KindDockerfile, deploy.KindImageInvalid:
				f.Severity = manifest.Block
			case deploy.KindImageUnresolved:
				f.Hint = "list the rendered file, or build again where its registry answers; what drkit cannot resolve it cannot prove"
			case manifest.KindImageMissing, manifest.KindImageUntrue:
				f.Hint = "push the image again, and name it by the digest that was tested"
				if !dockerfile(p.Path) { // a base image is needed to build only
					f.Severity = manifest.Block
				}
			}
			out = append(out, f)
		}
	}
	return out
}
