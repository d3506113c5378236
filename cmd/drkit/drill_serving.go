package main

import (
	"drkit/drill/step"
	"drkit/internal/openai"
	"drkit/internal/service"
)

// servingIn asks the engines that the regions name as their production; nil where
// none is named.
func servingIn(regions ...*service.Region) step.Serving {
	e := step.Endpoints{HTTP: func(url string) *openai.Client { return &openai.Client{BaseURL: url, HTTP: httpClient()} }}
	for _, r := range regions {
		for _, url := range r.Endpoints {
			e.All = append(e.All, step.Endpoint{Region: r.Name, URL: url})
		}
	}
	if len(e.All) == 0 {
		return nil
	}
	return e
}
