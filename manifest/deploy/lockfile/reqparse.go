package lockfile

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// reqLine is one requirement of a requirements file.
type reqLine struct {
	requirement
	origin origin
	commit bool     // a URL that names a full commit
	hashes []string // strong ones, whole
	weak   bool     // a hash that pip does not accept
	via    []string // what the comments of a compiler say asked for it
}

// reqFile collects what a requirements file says, with all that it includes.
type reqFile struct {
	l           *ledger
	lines       []reqLine
	constraints map[string][]reqLine
	index       string // the last --index-url
	noIndex     bool
	annotated   bool     // it has "# via" comments
	stack       []string // files being read, to find circles
	reads       int
	total       int // lines read
}

// What a requirements file may include, and how long a line may be. A line with
// a hundred hashes has 8 KB.
const (
	maxIncludes = 50
	maxReads    = 1000
	maxLine     = 256 << 10
)

// read reads a file and all that it includes. As pip does, it refuses a file
// that it cannot read whole.
func (r *reqFile) read(f File, constraint bool) error {
	at := path.Clean(f.Path)
	for _, open := range r.stack {
		if open == at {
			return fmt.Errorf("%s includes itself", path.Base(at))
		}
	}
	if len(r.stack) > maxIncludes {
		return fmt.Errorf("%s is included more than %d levels deep", path.Base(at), maxIncludes)
	}
	if !utf8.Valid(f.Data) {
		return fmt.Errorf("%s is not UTF-8 text", path.Base(at))
	}
	r.stack = append(r.stack, at)
	defer func() { r.stack = r.stack[:len(r.stack)-1] }()
	if r.reads++; r.reads > maxReads {
		return fmt.Errorf("it includes more than %d files", maxReads)
	}
	for line := range logicalLines(string(trimBOM(f.Data))) {
		if r.total++; r.total > maxEntries || len(line.text) > maxLine {
			return fmt.Errorf("%s, line %d: too many or too long lines", path.Base(at), line.number)
		}
		if err := r.line(line, at, constraint); err != nil {
			if at == path.Clean(r.l.lock.Path) {
				return atLine(line.number, "line %d: %w", line.number, err)
			}
			return fmt.Errorf("%s, line %d: %w", path.Base(at), line.number, err)
		}
	}
	return nil
}

func (r *reqFile) line(line logical, at string, constraint bool) error {
	words := strings.Fields(line.text)
	if strings.HasPrefix(words[0], "-") {
		return r.option(words, at, constraint)
	}
	body, options := line.text, ""
	if i := strings.Index(line.text, " -"); i >= 0 {
		body, options = line.text[:i], line.text[i:]
	}
	req, err := parseReqLine(strings.TrimSpace(body))
	if err != nil {
		return err
	}
	if err := req.options(strings.Fields(options)); err != nil {
		return err
	}
	req.name = r.projectName(req, at)
	req.via = via(line.comment)
	r.annotated = r.annotated || len(req.via) > 0
	r.add(req, constraint)
	return nil
}

// projectName is the name that the pyproject.toml at a path gives, where that is
// at hand.
func (r *reqFile) projectName(q reqLine, at string) string {
	if q.origin != local || strings.Contains(q.url, "://") {
		return q.name
	}
	folder, _, _ := strings.Cut(q.url, "[")
	f, ok := r.l.files[path.Join(path.Dir(at), folder, "pyproject.toml")]
	var p pyproject
	if !ok || decodeTOML(trimBOM(f.Data), &p) != nil || p.Project == nil || p.Project.Name == "" {
		return q.name
	}
	return normal(p.Project.Name)
}

func (r *reqFile) add(req reqLine, constraint bool) {
	if folder, _, _ := strings.Cut(req.url, "["); req.origin == local && itself(folder) {
		return
	}
	if req.url != "" && req.origin != local {
		r.l.url(req.url)
	}
	if constraint {
		r.constraints[req.name] = append(r.constraints[req.name], req)
		return
	}
	r.lines = append(r.lines, req)
}

// via reads the comments of pip-compile and uv: what asked for a package.
func via(comments []string) []string {
	var out []string
	on := false
	for _, c := range comments {
		if rest, ok := strings.CutPrefix(c, "via"); ok {
			on = true
			c = rest
		}
		if on {
			for part := range strings.SplitSeq(c, ",") {
				if part = strings.TrimSpace(part); part != "" {
					out = append(out, part)
				}
			}
		}
	}
	return out
}

// valued are the options of a requirements file that take a value; flags take
// none (pip, req_file.py).
var (
	valued = map[string]string{
		"-r": "include", "--requirement": "include", "-c": "constrain", "--constraint": "constrain",
		"-e": "edit", "--editable": "edit", "-i": "index", "--index-url": "index", "--pypi-url": "index",
		"--extra-index-url": "host", "-f": "host", "--find-links": "host",
		"--trusted-host": "", "--no-binary": "", "--only-binary": "", "--use-feature": "", "--all-releases": "", "--only-final": "",
		"--uploaded-prior-to": "", "--hash": "", // a hash without a requirement: pip ignores it, too
	}
	flags = map[string]bool{"--no-index": true, "--pre": true, "--prefer-binary": true, "--require-hashes": true, "--always-unzip": true, "-Z": true}
)

func (r *reqFile) option(words []string, at string, constraint bool) error {
	for len(words) > 0 {
		name, value, hasValue := strings.Cut(words[0], "=")
		words = words[1:]
		if !strings.HasPrefix(name, "--") && len(name) > 2 { // -rfile
			name, value, hasValue = name[:2], strings.TrimPrefix(name[2:]+value, "="), true
		}
		if flags[name] {
			r.noIndex = r.noIndex || name == "--no-index"
			continue
		}
		what, ok := valued[name]
		if !ok {
			return fmt.Errorf("%q is no option of a requirements file", clip(name, 40))
		}
		if !hasValue {
			if len(words) == 0 {
				return fmt.Errorf("%s has no value", name)
			}
			value, words = words[0], words[1:]
		}
		if what == "edit" {
			words = nil // its own options and marker may follow
		}
		if err := r.apply(what, strings.Trim(value, `"'`), at, constraint); err != nil {
			return err
		}
	}
	return nil
}

func (r *reqFile) apply(what, value, at string, constraint bool) error {
	switch what {
	case "include", "constrain":
		return r.include(value, at, constraint || what == "constrain")
	case "index":
		r.index = value
		r.l.url(value)
	case "host":
		r.l.url(value)
	case "edit":
		req, err := parseReqLine(value)
		if err != nil || req.url == "" {
			req = reqLine{requirement: requirement{name: pathName(value), url: value}, origin: local}
		}
		req.name = r.projectName(req, at)
		r.add(req, constraint)
	}
	return nil
}

func (r *reqFile) include(name, at string, constraint bool) error {
	if strings.Contains(name, "://") {
		r.l.url(name)
		return &includeError{fmt.Sprintf("it includes a file of %s, which is not at hand", or(readHost(name).name, "another host"))}
	}
	f, ok := r.l.files[path.Join(path.Dir(at), name)]
	if !ok {
		return &includeError{fmt.Sprintf("it includes %s, which is not there", clip(name, 80))}
	}
	return r.read(f, constraint)
}
