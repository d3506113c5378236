package service

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"drkit/internal/errext"
)

// queryHint names the options that an s3:// URL takes.
const queryHint = "options of a bucket are endpoint, region, profile, assume_role, path_style, checksums, kms_key, requester_pays; credentials come from the environment or a profile"

// s3Options reads the query of an s3:// URL: the keys of s3: in drkit.yaml.
func s3Options(query string) (S3, error) {
	var o S3
	values, err := url.ParseQuery(query)
	if err != nil {
		return o, errext.WithHint(errors.New("has a query that cannot be read"), queryHint)
	}
	for key, given := range values {
		if len(given) > 1 {
			return o, errext.WithHint(fmt.Errorf("has a query with %s twice", key), queryHint)
		}
		if err := o.set(key, given[0]); err != nil {
			return o, errext.WithHint(err, queryHint)
		}
	}
	return o, nil
}

func (o *S3) set(key, value string) (err error) {
	switch key {
	case "endpoint":
		o.Endpoint = value
		if u, bad := url.Parse(value); bad != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" {
			err = errors.New("has a query whose endpoint is no http or https URL, or holds credentials")
		}
	case "region":
		o.Region = value
	case "profile":
		o.Profile = value
	case "assume_role":
		o.AssumeRole = value
	case "kms_key":
		o.KMSKey = value
	case "checksums":
		if o.Checksums = value; value != "auto" && value != "when-required" {
			err = errors.New("has a query whose checksums is neither auto nor when-required")
		}
	case "path_style":
		o.PathStyle, err = truth(key, value)
	case "requester_pays":
		o.RequesterPays, err = truth(key, value)
	default:
		err = fmt.Errorf("has a query with %s, which is no option of a bucket", strconv.Quote(key))
	}
	return err
}

func truth(key, value string) (bool, error) {
	if value != "true" && value != "false" {
		return false, fmt.Errorf("has a query whose %s is neither true nor false", key)
	}
	return value == "true", nil
}

// URL is the location with everything that is needed to open it again: String,
// and for a bucket how it is reached.
func (l Location) URL() string {
	q := url.Values{}
	add := func(key, value string) {
		if value != "" {
			q.Set(key, value)
		}
	}
	if l.Scheme == SchemeS3 {
		add("endpoint", l.S3.Endpoint)
		add("region", l.S3.Region)
		add("profile", l.S3.Profile)
		add("assume_role", l.S3.AssumeRole)
		add("kms_key", l.S3.KMSKey)
		if l.S3.Checksums != "auto" {
			add("checksums", l.S3.Checksums)
		}
		for key, on := range map[string]bool{"path_style": l.S3.PathStyle, "requester_pays": l.S3.RequesterPays} {
			if on {
				q.Set(key, "true")
			}
		}
	}
	if len(q) == 0 {
		return l.String()
	}
	return l.String() + "?" + q.Encode()
}

// endpointOf is the endpoint of a bucket in one spelling, "" for Amazon's, where a
// bucket's name is unique, and where none is given.
func endpointOf(l Location) string {
	u, err := url.Parse(l.S3.Endpoint)
	if l.S3.Endpoint == "" || err != nil {
		return ""
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if strings.HasSuffix(host, ".amazonaws.com") || strings.HasSuffix(host, ".amazonaws.com.cn") {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		host = "localhost"
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return host + ":" + port + strings.TrimRight(u.Path, "/")
}

// reach hands what a region's s3: says on to its store and state.
func (r *Region) reach() {
	for _, l := range []*Location{&r.Store, &r.State} {
		if l.Scheme == SchemeS3 && l.S3 == (S3{}) {
			l.S3 = r.S3
		}
	}
}
