package main

import (
	"slices"
	"testing"

	"drkit/internal/service"
)

// TestAddresses: where each kind of place is asked for, by the rules of its owner.
func TestAddresses(t *testing.T) {
	none := func(string) string { return "" }
	place := func(text string) service.Location {
		var l service.Location
		if err := l.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return l
	}
	regional := place("s3://prod-use1/llm")
	regional.S3.Region = "us-east-1"
	china := place("s3://prod-cn/llm")
	china.S3.Region = "cn-north-1"
	own := place("s3://prod/llm")
	own.S3.Endpoint = "https://user:secret@minio.use1:9000/?x=1"
	for name, tc := range map[string]struct {
		region service.Region
		getenv func(string) string
		urls   []string
		words  []string
	}{
		"folder":               {service.Region{Store: place("./regions/us")}, none, []string{""}, nil},
		"bucket":               {service.Region{Store: regional}, none, []string{"https://prod-use1.s3.us-east-1.amazonaws.com/"}, []string{"s3://prod-use1", "prod-use1"}},
		"bucket, region found": {service.Region{Store: place("s3://llm/x")}, none, []string{"https://llm.s3.amazonaws.com/"}, []string{"s3://llm", "llm.s3"}},
		"bucket in China":      {service.Region{Store: china}, none, []string{"https://prod-cn.s3.cn-north-1.amazonaws.com.cn/"}, nil},
		"endpoint of its own":  {service.Region{Store: own}, none, []string{"https://minio.use1:9000/prod"}, []string{"minio.use1:9000"}},
		"endpoint by variable": {service.Region{Store: place("s3://prod/llm")}, func(n string) string { return map[string]string{"AWS_ENDPOINT_URL": "http://gw:7070"}[n] }, []string{"http://gw:7070/prod"}, nil},
		"hub":                  {service.Region{Store: place("hf://acme/m")}, none, []string{"https://huggingface.co"}, nil},
		"all else": {service.Region{Store: place("./us"), Registry: "1.example/llm", Endpoints: []string{"http://vllm-0:8000"},
			Routers: []service.Router{{Name: "chat", Replicas: []service.RouterReplica{{Admin: "http://router-0:30000"}}}}}, none,
			[]string{"", "https://1.example/v2/", "http://vllm-0:8000", "http://router-0:30000"}, []string{"1.example", "vllm-0:8000", "router-0:30000"}},
	} {
		var urls, words []string
		for _, a := range addressesOf(&tc.region, tc.getenv) {
			urls, words = append(urls, a.URL), append(words, a.Words...)
		}
		if !slices.Equal(urls, tc.urls) {
			t.Errorf("%s: %q", name, urls)
		}
		for _, w := range tc.words {
			if !slices.Contains(words, w) {
				t.Errorf("%s: %q lacks %q", name, words, w)
			}
		}
	}
	if words := bucketWords("models"); slices.Contains(words, "models") {
		t.Error("a word that any file may hold counts as the bucket")
	}
}
