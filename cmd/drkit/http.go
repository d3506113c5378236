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
