package lockfile

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// options reads what follows a requirement: --hash and what does not matter here.
func (q *reqLine) options(words []string) error {
	for i := 0; i < len(words); i++ {
		name, value, hasValue := strings.Cut(words[i], "=")
		switch name {
		case "--hash":
			if !hasValue {
				if i++; i == len(words) {
					return fmt.Errorf("--hash of %s has no value", q.name)
				}
				value = words[i]
			}
			if err := q.hash(value); err != nil {
				return err
			}
		case "--global-option", "--install-option", "--config-settings", "--config-setting", "-C":
			if !hasValue {
				i++
			}
		default:
			return fmt.Errorf("%q is no option of a requirement", clip(words[i], 40))
		}
	}
	return nil
}

// hash keeps a strong hash. A strong one of the wrong length means that the file
// was cut or edited; a weak one is only not counted.
func (q *reqLine) hash(value string) error {
	value = strings.Trim(value, `"'`)
	algorithm, _, _ := strings.Cut(value, ":")
	if _, strong := hashLength[algorithm]; !strong {
		q.weak = true
		return nil
	}
	if !strongHash(value) {
		return fmt.Errorf("a %s hash of %s is incomplete", algorithm, q.name)
	}
	q.hashes = append(q.hashes, value)
	return nil
}

var egg = regexp.MustCompile(`[#&]egg=([A-Za-z0-9._-]+)`)

// parseReqLine reads a requirement: PEP 508, a bare URL, or a path.
func parseReqLine(text string) (reqLine, error) {
	target, marker := cutURLMarker(text)
	if !strings.Contains(text, "://") || strings.Contains(text, "@ ") || strings.Contains(text, " @") {
		if isPath(target) {
			return reqLine{requirement: requirement{name: pathName(target), url: target, marker: marker}, origin: local}, nil
		}
		req, err := parseRequirement(text)
		q := reqLine{requirement: req}
		if err == nil && req.url != "" {
			q.locate()
		}
		return q, err
	}
	if i := strings.Index(target, "://"); i >= 0 && strings.ContainsAny(target[:i], " =<>~!;,") {
		return reqLine{}, fmt.Errorf("%q is no requirement", clip(text[:i], 80))
	}
	if name, rest, ok := strings.Cut(target, "@"); ok && pep508Name.MatchString(name) && strings.Contains(rest, "://") && !strings.Contains(name, ":") {
		req, err := parseRequirement(text) // name@url
		q := reqLine{requirement: req}
		q.locate()
		return q, err
	}
	q := reqLine{requirement: requirement{name: urlName(target), url: target, marker: marker}}
	q.locate()
	return q, nil
}

var pep508Name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(\[[^\]]*\])?\s*$`)

var vcsScheme = regexp.MustCompile(`^(git|hg|svn|bzr)\+`)

// locate settles where a URL leads, and takes the hash in its fragment.
func (q *reqLine) locate() {
	target, fragment, _ := strings.Cut(q.url, "#")
	switch {
	case strings.HasPrefix(target, "file:") || !strings.Contains(target, "://"):
		q.origin = local
	case vcsScheme.MatchString(target):
		q.origin = git
		if i := strings.LastIndexByte(target, '@'); i > strings.LastIndexByte(target, '/') {
			q.commit = commit.MatchString(target[i+1:])
		}
	default:
		for part := range strings.SplitSeq(fragment, "&") {
			if h := strings.Replace(part, "=", ":", 1); strongHash(h) {
				q.hashes = append(q.hashes, h)
			}
		}
	}
}

func isPath(text string) bool {
	return strings.HasPrefix(text, ".") || strings.HasPrefix(text, "/") || archive.MatchString(text) || strings.HasPrefix(text, "file:")
}

// urlName guesses the name of what a bare URL leads to: its egg, or the first
// part of the file's name.
func urlName(url string) string {
	if m := egg.FindStringSubmatch(url); m != nil {
		return normal(m[1])
	}
	target, _, _ := strings.Cut(url, "#")
	return pathName(target)
}

var versionTail = regexp.MustCompile(`-\d.*$`)

// pathName guesses the name of what lies at a path.
func pathName(p string) string {
	base := path.Base(strings.TrimSuffix(strings.SplitN(p, "[", 2)[0], "/"))
	base, _, _ = strings.Cut(base, "@")
	base = strings.TrimSuffix(base, ".git")
	if archive.MatchString(base) {
		base = versionTail.ReplaceAllString(archive.ReplaceAllString(base, ""), "")
	}
	return normal(base)
}
