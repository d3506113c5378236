package service

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"drkit/internal/errext"
)

// Schemes of a Location.
const (
	SchemeFile = "file" // a directory or file: a plain path or file://
	SchemeS3   = "s3"   // s3://bucket/prefix
	SchemeHF   = "hf"   // hf://org/name@revision, read only
)

// Location is a place as it was written, and what it means.
type Location struct {
	Raw    string // as written: "./models/llama"
	Scheme string // SchemeFile, SchemeS3 or SchemeHF; "" for the zero Location
	// Path is absolute for SchemeFile, "bucket/prefix" for SchemeS3,
	// "org/name@revision" for SchemeHF; without a slash at its end.
	Path string
	// S3 is how the bucket is reached, for SchemeS3: what the URL's query says, and
	// for a region's store and state what its s3: says.
	S3 S3
}

// IsZero reports whether nothing was written.
func (l Location) IsZero() bool { return l.Raw == "" }

// String is the location in full: the absolute path, or the URL. How a bucket is
// reached is not part of it; see URL.
func (l Location) String() string {
	if l.Scheme == "" || l.Scheme == SchemeFile {
		return l.Path
	}
	return l.Scheme + "://" + l.Path
}

// Join is the place of that name inside l.
func (l Location) Join(name string) Location {
	raw, query, _ := strings.Cut(l.Raw, "?")
	l.Raw = strings.TrimRight(raw, "/") + "/" + name
	if l.Scheme == SchemeS3 && query != "" {
		l.Raw += "?" + query
	}
	if l.Scheme == SchemeFile {
		l.Path = filepath.Join(l.Path, filepath.FromSlash(name))
	} else {
		l.Path = path.Join(l.Path, name)
	}
	return l
}

// holds reports whether other is l or lies inside it.
func (l Location) holds(other Location) bool {
	if l.IsZero() || l.Scheme != other.Scheme || endpointOf(l) != endpointOf(other) {
		return false
	}
	a, b := filepath.ToSlash(l.Path), filepath.ToSlash(other.Path)
	return a == b || strings.HasPrefix(b, strings.TrimSuffix(a, "/")+"/")
}

// resolve makes a file's path absolute.
func (l *Location) resolve(dir string) {
	if l.Scheme == SchemeFile {
		if !filepath.IsAbs(l.Path) {
			l.Path = filepath.Join(dir, l.Path)
		}
		l.Path = filepath.Clean(l.Path)
	}
}

var (
	scheme    = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*)://`)
	halfURL   = regexp.MustCompile(`^(s3|hf|file|oci|gs|http|https):/?[^/]`)
	hubModel  = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w./-]+)?$`)
	s3Bucket  = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	kindsHint = "a place is a path, file://, s3:// or hf://"
)

// UnmarshalText reads a path or URL. An unsupported kind of place is an error
// and not an empty copy: coverage is never partial.
func (l *Location) UnmarshalText(text []byte) error {
	raw := string(text)
	m := scheme.FindStringSubmatch(raw)
	switch {
	case strings.TrimSpace(raw) == "":
		return errors.New("is empty")
	case m == nil && halfURL.MatchString(raw):
		return errext.WithHint(errors.New("is half a URL"), "a URL has :// after its scheme")
	case m == nil:
		*l = Location{Raw: raw, Scheme: SchemeFile, Path: filepath.FromSlash(raw)}
		return nil
	}
	rest := strings.TrimRight(raw[len(m[0]):], "/")
	if m[1] == SchemeS3 {
		return l.fromS3(raw, raw[len(m[0]):])
	}
	if strings.ContainsAny(rest, "?#") {
		return errext.WithHint(errors.New("is a URL with a query or fragment"), "only s3:// takes options behind a ?")
	}
	switch m[1] {
	case SchemeFile:
		return l.fromFileURL(raw)
	case SchemeHF:
		if !hubModel.MatchString(rest) {
			return errext.WithHint(errors.New("is not a model of the hub"), "write hf://org/name@revision")
		}
		*l = Location{Raw: raw, Scheme: SchemeHF, Path: rest}
		return nil
	}
	return errext.WithHint(fmt.Errorf("%s:// is not supported", m[1]), kindsHint)
}

func (l *Location) fromFileURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || (u.Host != "" && u.Host != "localhost") || u.Path == "" {
		return errext.WithHint(errors.New("is not a file URL"), "write file:///absolute/path, or the path alone")
	}
	*l = Location{Raw: raw, Scheme: SchemeFile, Path: filepath.FromSlash(u.Path)}
	return nil
}

func (l *Location) fromS3(raw, rest string) error {
	rest, query, _ := strings.Cut(rest, "?")
	rest = strings.TrimRight(rest, "/")
	bucket, prefix, _ := strings.Cut(rest, "/")
	if strings.Contains(bucket, "@") {
		return errext.WithHint(errors.New("holds credentials"), "credentials come from the environment or a profile")
	}
	if !s3Bucket.MatchString(bucket) {
		return errext.WithHint(errors.New("does not name a bucket"), "write s3://bucket/prefix")
	}
	if prefix != "" && path.Clean("/"+prefix) != "/"+prefix {
		return errext.WithHint(errors.New("has a prefix with empty, . or .. elements"), "write the prefix as the bucket's listing shows it")
	}
	options, err := s3Options(query)
	if strings.Contains(rest, "#") {
		err = errors.New("is a URL with a fragment")
	}
	*l = Location{Raw: raw, Scheme: SchemeS3, Path: rest, S3: options}
	return err
}

// Date is a day, written 2026-12-31; its Time is the last moment of that day in
// UTC, so that now.After(date.Time) says whether it has passed.
type Date struct{ time.Time }

// UnmarshalText reads a day, or an instant as RFC 3339 writes it.
func (d *Date) UnmarshalText(text []byte) error {
	if day, err := time.Parse(time.DateOnly, string(text)); err == nil {
		d.Time = day.AddDate(0, 0, 1).Add(-1)
		return nil
	}
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return errext.WithHint(errors.New("is not a date"), "write it as 2026-12-31")
	}
	d.Time = at.UTC()
	return nil
}
