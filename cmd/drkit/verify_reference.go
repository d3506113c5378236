package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"drkit/internal/errext"
	"drkit/internal/service"
	"drkit/manifest/digest"
	"drkit/manifest/oms"
	"drkit/verify"
)

// reference reads SRC or DST when one of them is a file: a list of digests to
// compare the other one with. It returns nil when both are places. Notes say what
// the list itself rests on.
func (o verifyOptions) reference() (ref *verify.Reference, dst string, notes []string, err error) {
	src, dst := o.Places[0], o.Places[1]
	a, b := isFile(src), isFile(dst)
	switch {
	case a && b:
		return nil, "", nil, usage(errors.New("SRC and DST are both files"), "compare a list of digests with a folder or bucket")
	case b:
		src, dst = dst, src
	case !a:
		if o.Key != "" {
			err = usage(errors.New("--key is for a signature given as SRC"), "name the signature file, or leave the key away")
		}
		return nil, dst, nil, err
	}
	data, err := readFile(src)
	if err != nil {
		return nil, "", nil, err
	}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		ref, notes, err = o.signature(src, data)
	} else {
		ref, notes, err = o.list(src, data)
	}
	if err == nil {
		notes = append(notes, leaveOut(ref, src, dst)...)
	}
	return ref, dst, notes, err
}

func isFile(place string) bool {
	l, err := parseLocation(place)
	if err != nil || l.Scheme != service.SchemeFile {
		return false
	}
	info, err := os.Stat(l.Path)
	return err == nil && info.Mode().IsRegular()
}

// leaveOut keeps a list that lies in the folder that it describes from being extra.
func leaveOut(ref *verify.Reference, src, dst string) []string {
	l, err := parseLocation(dst)
	if err != nil || l.Scheme != service.SchemeFile {
		return nil
	}
	own := inside(l.Path, src)
	if own == "" || ref.Files[own] != "" {
		return nil
	}
	silent := ref.Silent
	ref.Silent = func(path string) bool { return path == own || silent != nil && silent(path) }
	return []string{own + " is the list itself, and is not compared"}
}

func (o verifyOptions) list(src string, data []byte) (*verify.Reference, []string, error) {
	if o.Key != "" {
		return nil, nil, usage(fmt.Errorf("--key: %s is no signature (OpenSSF Model Signing)", src), "leave the key away, or name the signature")
	}
	files, err := parseSHA256Sums(data)
	if err != nil {
		return nil, nil, usage(fmt.Errorf("%s: %w", src, err), "name a file that sha256sum wrote, a signature, or a folder")
	}
	return &verify.Reference{Name: src, Files: files}, []string{src + " is an unsigned claim: whoever can write it can make any copy match"}, nil
}

// parseSHA256Sums reads what sha256sum writes: "digest  name" or "digest *name" a
// line, "\" before the digest where the name has escapes, "SHA256 (name) = digest"
// with --tag, and comments. Anything else is an error that names the line.
func parseSHA256Sums(data []byte) (map[string]string, error) {
	files := map[string]string{}
	var errs []error
	text := strings.TrimSuffix(string(data), "\n")
	if text == "" {
		return nil, errors.New("it is empty")
	}
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, sum, err := parseSumLine(line)
		if err == nil && files[name] != "" {
			err = fmt.Errorf("%q stands twice", name)
		}
		if err != nil {
			if errs = append(errs, fmt.Errorf("line %d: %w", i+1, err)); len(errs) == 10 {
				break // it is something else altogether
			}
			continue
		}
		files[name] = sum
	}
	return files, errors.Join(errs...)
}

func parseSumLine(line string) (name, sum string, err error) {
	rest, escaped := strings.CutPrefix(line, `\`)
	if tagged, ok := strings.CutPrefix(rest, "SHA256 ("); ok {
		i := strings.LastIndex(tagged, ") = ")
		if i < 0 {
			return "", "", errors.New(`"SHA256 (" without ") = "`)
		}
		name, sum = tagged[:i], tagged[i+len(") = "):]
	} else {
		if len(rest) < 67 || rest[64] != ' ' || rest[65] != ' ' && rest[65] != '*' {
			return "", "", fmt.Errorf("it is not 64 digits, a space, a space or asterisk, and a name: %.40q", line)
		}
		sum, name = rest[:64], rest[66:]
	}
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != 32 {
		return "", "", fmt.Errorf("%.70q is no SHA-256", sum)
	}
	if strings.HasSuffix(name, "\r") {
		return "", "", errors.New("it ends with a carriage return: the file was changed to Windows lines")
	}
	if escaped {
		if name, err = unescape(name); err != nil {
			return "", "", err
		}
	}
	name = strings.TrimPrefix(name, "./")
	if name == "-" || name == "" {
		return "", "", errors.New("it names no file")
	}
	if strings.HasPrefix(name, "/") {
		return "", "", fmt.Errorf("%q is not relative", name)
	}
	return name, strings.ToLower(sum), nil
}

// unescape reads the escapes that sha256sum writes into names.
func unescape(name string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] != '\\' {
			b.WriteByte(name[i])
			continue
		}
		i++
		at := -1
		if i < len(name) {
			at = strings.IndexByte(`\nr`, name[i])
		}
		if at < 0 {
			return "", fmt.Errorf("the name %q has an escape other than \\\\, \\n and \\r", name)
		}
		b.WriteByte("\\\n\r"[at])
	}
	return b.String(), nil
}

// signature reads a signature's statement, whose signer is proven only with a key.
func (o verifyOptions) signature(src string, data []byte) (*verify.Reference, []string, error) {
	bundle, err := oms.ReadBundle(data)
	if err != nil {
		return nil, nil, errext.WithHint(fmt.Errorf("%s: %w", src, err), "as SRC, a file is a list of sha256sum or a signature; a manifest is named with --manifest")
	}
	var st *oms.Statement
	note := ""
	if o.Key == "" {
		st, err = bundle.Unverified()
		note = src + " is an unsigned claim: its signature was not checked; --key PUB checks it"
	} else if public, kerr := (verifySignatureOptions{Key: o.Key}).key(); kerr != nil {
		return nil, nil, kerr
	} else {
		st, err = bundle.Verify(public)
		note = "the signature in " + src + " was made by the key in " + o.Key
	}
	if err != nil {
		return nil, nil, err
	}
	ref, err := statementFiles(src, st)
	if len(st.Serialization.IgnorePaths) > 0 {
		note += "; it says nothing of " + strings.Join(st.Serialization.IgnorePaths, ", ")
	}
	return ref, []string{note}, err
}

// statementFiles are the files that a statement names by the SHA-256 of the whole.
func statementFiles(src string, st *oms.Statement) (*verify.Reference, error) {
	if st.Serialization.Method != "files" || st.Serialization.HashType != digest.SHA256 {
		return nil, usage(fmt.Errorf("%s: its digests are %s of %s, and a copy's checksums are of whole files by sha256", src, st.Serialization.HashType, st.Serialization.Method),
			"restore the copy into a folder and use drkit manifest verify-signature FOLDER, which reads every file")
	}
	ref := &verify.Reference{Name: src, Files: map[string]string{}, Silent: func(path string) bool { return !st.Covers(path) }}
	for _, r := range st.Resources {
		ref.Files[filepath.ToSlash(r.Name)] = strings.ToLower(r.Digest)
	}
	return ref, nil
}
