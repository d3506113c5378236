package manifest

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// CheckPath says why a path cannot stand in a manifest: it must be relative,
// with slashes, without "..", ".", empty segments, backslashes or control
// characters, and valid UTF-8. Every store can hold such a path.
func CheckPath(path string) error {
	switch {
	case path == "":
		return errors.New("the path is empty")
	case !utf8.ValidString(path):
		return fmt.Errorf("the path %q is not UTF-8 text", path)
	case strings.HasPrefix(path, "/"):
		return fmt.Errorf("the path %q is absolute", path)
	case strings.ContainsRune(path, '\\'):
		return fmt.Errorf("the path %q contains a backslash", path)
	case strings.ContainsFunc(path, unicode.IsControl):
		return fmt.Errorf("the path %q contains a control character", path)
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == ".." || segment == "." || segment == "" {
			return fmt.Errorf("the path %q contains the segment %q", path, segment)
		}
	}
	return nil
}

// normal is the path in Unicode's NFC, under which two names that look the same
// are the same.
func normal(path string) string { return norm.NFC.String(path) }

// leftOut reports whether a file of a repository is no part of a release: git's
// own data and the download records of the Hugging Face command line. They
// differ between equal downloads, and no engine reads them.
func leftOut(path string) bool {
	return strings.HasPrefix(path, ".git/") || path == ".git" || strings.HasPrefix(path, ".cache/huggingface/")
}
