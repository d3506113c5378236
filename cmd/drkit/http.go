package main

import (
	"net"
	"net/http"
	"time"
)

// httpClient speaks to engines and routers. It uses no proxy: a drill's own
// endpoints are addressed directly, and a proxy would hide what is unreachable.
func httpClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       30 * time.Second,
		ResponseHeaderTimeout: 2 * time.Minute,
	}}
}

// webClient speaks to places outside of the drill, as a playbook's own steps name
// them: through the proxy that the environment names, where there is one.
func webClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     30 * time.Second,
	}}
}
