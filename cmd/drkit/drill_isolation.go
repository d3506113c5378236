package main

import (
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"drkit/drill/reach"
	"drkit/drill/step"
	"drkit/internal/service"
)

// newReach is hidden: drkit runs it beside a canary, to see what can be reached there.
func newReach(s *streams) *cobra.Command {
	return &cobra.Command{
		Use:    reachCommand + " URL...",
		Short:  "Try addresses and say which of them answer: what a drill runs inside a canary",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, urls []string) error {
			for _, text := range urls {
				if u, err := url.Parse(text); err != nil || u.Host == "" {
					return usage(fmt.Errorf("%q is no URL with a host", text), "write scheme://host:port")
				}
			}
			line, err := reach.Encode(reach.Try(c.Context(), urls))
			if err != nil {
				return err
			}
			_, err = s.Out.Write(line)
			return err
		},
	}
}

const reachCommand = "isolation-probe"

// selfReach is the command by which this program tries addresses; nil where it does not
// know its own file.
func selfReach() []string {
	path, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{path, reachCommand}
}

// addressesOf are the places of a region that a canary elsewhere must not need.
func addressesOf(r *service.Region, getenv func(string) string) (all []step.Address) {
	all = append(all, storeAddress("store", r.Store, getenv)...)
	if r.State.String() != "" && !strings.HasPrefix(r.State.String(), r.Store.String()) {
		all = append(all, storeAddress("state", r.State, getenv)...)
	}
	if r.Registry != "" {
		host, _, _ := strings.Cut(r.Registry, "/")
		all = append(all, step.Address{What: "registry " + host, URL: registryURL(host), Words: []string{host}})
	}
	for _, e := range r.Endpoints {
		all = append(all, webAddress("endpoint", e))
	}
	for _, router := range r.Routers {
		for _, replica := range router.Replicas {
			all = append(all, webAddress("router "+router.Name, replica.Admin))
		}
	}
	return all
}

func storeAddress(what string, l service.Location, getenv func(string) string) []step.Address {
	switch l.Scheme {
	case service.SchemeFile:
		return []step.Address{{What: what + " " + l.Path}}
	case service.SchemeHF:
		hub := getenv("HF_ENDPOINT")
		if hub == "" {
			hub = "https://huggingface.co"
		}
		return []step.Address{webAddress("hub", hub)}
	case service.SchemeS3:
		return bucketAddress(l, getenv)
	}
	return nil
}

// bucketAddress is where a bucket is asked for, and how files name it.
func bucketAddress(l service.Location, getenv func(string) string) []step.Address {
	name := bucketName(l)
	a := step.Address{What: "bucket " + name, Words: bucketWords(name)}
	endpoint := l.S3.Endpoint
	for _, variable := range []string{"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"} {
		if endpoint == "" {
			endpoint = getenv(variable)
		}
	}
	if endpoint != "" {
		store := webAddress("endpoint of bucket "+name, endpoint)
		a.URL = strings.TrimRight(store.URL, "/") + "/" + name
		a.Words = append(a.Words, store.Words...)
		return []step.Address{a}
	}
	region := l.S3.Region
	if region == "" { // the name without one leads to the bucket's own region
		a.URL = "https://" + name + ".s3.amazonaws.com/"
		return []step.Address{a}
	}
	suffix := ""
	if strings.HasPrefix(region, "cn-") {
		suffix = ".cn"
	}
	a.URL = fmt.Sprintf("https://%s.s3.%s.amazonaws.com%s/", name, region, suffix)
	return []step.Address{a}
}

// telling are names that no file holds by chance.
var telling = regexp.MustCompile(`^.{6,}$`)

func bucketWords(name string) []string {
	words := []string{"s3://" + name, "s3a://" + name, "arn:aws:s3:::" + name, name + ".s3"}
	if telling.MatchString(name) && strings.ContainsAny(name, "-.0123456789") {
		words = append(words, name)
	}
	return words
}

func registryURL(host string) string {
	scheme := "https"
	if name, _, _ := strings.Cut(host, ":"); name == "localhost" || strings.HasPrefix(name, "127.") {
		scheme = "http"
	}
	return scheme + "://" + host + "/v2/"
}

// webAddress is a URL without what may be a secret in it.
func webAddress(what, raw string) step.Address {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return step.Address{What: what}
	}
	plain := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return step.Address{What: what + " " + u.Host, URL: plain.String(), Words: []string{u.Host}}
}
