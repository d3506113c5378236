package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"drkit/internal/service"
	"drkit/manifest"
	"drkit/manifest/diff"
	"drkit/manifest/engine"
)

// diffKinds are the kinds of differences that allowed_differences may name.
var diffKinds = []string{diff.KindField, diff.KindTemplate, diff.KindText, diff.KindTensors, diff.KindModel, diff.KindOption,
	diff.KindEngine, diff.KindImage, diff.KindPackage, diff.KindPod, diff.KindOrigin, diff.KindRegion}

// checkAllowed refuses entries of allowed_differences that name nothing in the
// release: a typing error there would leave a difference that nobody meant, or
// hide that one is gone.
func checkAllowed(svc *service.Service, in *manifest.Input) error {
	var errs []error
	for i, r := range svc.Regions {
		for j, entry := range r.AllowedDifferences {
			if hint := unknownDifference(svc, in, entry); hint != "" {
				errs = append(errs, usage(fmt.Errorf("%s: regions[%d].allowed_differences[%d]: %q names nothing in the engine and deploy files", svc.File, i, j, entry), hint))
			}
		}
	}
	return errors.Join(errs...)
}

// unknownDifference is a hint for an entry that names nothing, else "".
func unknownDifference(svc *service.Service, in *manifest.Input, entry string) string {
	if slices.Contains(diffKinds, entry) {
		return ""
	}
	if strings.ContainsAny(entry, "/*") {
		return unknownFile(in, entry)
	}
	option, _, _ := strings.Cut(entry, ".")
	switch dashed := strings.ReplaceAll(entry, "-", "_"); {
	case isOption(svc.Engine, option), isField(svc, in, entry):
		return ""
	case dashed != entry && isOption(svc.Engine, dashed):
		return "did you mean " + dashed + "?"
	}
	return "write an option of the engine (max_model_len), a field of a file (spec.replicas), a file as part/path, or one of " + strings.Join(diffKinds, ", ")
}

// unknownFile is a hint for an entry that matches no file, else "". Files are
// named by part and path, as findings name them.
func unknownFile(in *manifest.Input, entry string) string {
	near := ""
	for part, files := range map[string][]manifest.PartFile{"engine": in.EngineFiles, "deploy": in.DeployFiles} {
		for _, f := range files {
			if namesFile(entry, part+"/"+f.Path) {
				return ""
			}
			if namesFile(part+"/"+entry, part+"/"+f.Path) {
				near = fmt.Sprintf("did you mean %s/%s?", part, entry)
			}
		}
	}
	if near != "" {
		return near
	}
	return "name a file as findings do, by part and path: deploy/k8s/values.yaml, or a folder: deploy/k8s/**"
}

// namesFile reports whether an entry names a file, as manifest diff reads it.
func namesFile(entry, file string) bool {
	if folder, ok := strings.CutSuffix(entry, "/**"); ok {
		return strings.HasPrefix(file, folder+"/")
	}
	ok, err := path.Match(entry, file)
	return err == nil && ok
}

// isOption reports whether the engine has an option of that name, with the
// underscores that manifests write.
func isOption(e service.Engine, name string) bool {
	cmd := engine.Command{Argv: []string{"serve", "model", "--" + strings.ReplaceAll(name, "_", "-")}, Version: e.Version}
	if e.Kind == engine.SGLang {
		cmd.Argv, cmd.Entry = []string{"--model-path", "model", cmd.Argv[2]}, engine.EntryLaunch
	}
	return name != "" && !strings.Contains(name, "-") && !slices.ContainsFunc(engine.Parse(cmd).Problems, func(p engine.Problem) bool {
		return slices.Contains([]string{engine.KindUnknownOption, engine.KindAmbiguousOption, engine.KindAbbreviated, engine.KindBadSuffix}, p.Kind)
	})
}

var (
	fieldName = regexp.MustCompile(`^[A-Za-z_$][\w./$-]*$`)
	position  = regexp.MustCompile(`\[[^\]]*\]`)
)

// isField reports whether the last key of a field's path is one in some file.
func isField(svc *service.Service, in *manifest.Input, entry string) bool {
	keys := slices.DeleteFunc(strings.Split(position.ReplaceAllString(entry, ""), "."), func(k string) bool { return !fieldName.MatchString(k) })
	if len(keys) == 0 {
		return false
	}
	key := regexp.MustCompile(`(?m)(?:^|[\s{,\[-])["']?` + regexp.QuoteMeta(keys[len(keys)-1]) + `["']?\s*[:=]`)
	for _, f := range slices.Concat(in.EngineFiles, in.DeployFiles) {
		if data, err := os.ReadFile(svc.Abs(path.Clean(f.Path))); err == nil && key.Match(data) {
			return true
		}
	}
	return false
}
