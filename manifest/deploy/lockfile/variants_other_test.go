package lockfile

import "strings"

func goSum(modules ...string) string {
	h := "h1:" + strings.Repeat("A", 43) + "="
	var b strings.Builder
	for _, m := range modules {
		b.WriteString(m + " " + h + "\n" + m + "/go.mod " + h + "\n")
	}
	return b.String()
}

const tfHashes = "  hashes = [\n    \"h1:vZc4lBra/5r9k3DgUvAFPzMe1+3rMIiLgySmAn5KkRs=\", # linux\n  ]\n"

const goHosts = " implied=proxy.golang.org,sum.golang.org"

var otherVariants = []variant{
	{name: "go replace", lock: "go.sum", step: "yes", want: "gomod 2/2 local=x.internal.example/local hosts=github.com,pkgs.internal.example" + goHosts, files: map[string]string{
		"go.mod": "module m\r\ngo 1.24\r\nrequire (\r\n\tx.internal.example/local v1.0.0\r\n\tgithub.com/a/b v1.0.0 // indirect\r\n\tgithub.com/c/d v1.2.3\r\n)\r\nreplace x.internal.example/local => ../local\r\nreplace github.com/c/d v1.2.3 => pkgs.internal.example/d v1.2.4\r\nexclude github.com/a/b v0.9.0\r\n",
		"go.sum": strings.ReplaceAll(goSum("github.com/a/b v1.0.0", "pkgs.internal.example/d v1.2.4"), "\n", "\r\n")}},
	{name: "go nothing required", lock: "go.sum", step: "yes", want: "gomod 0/0" + goHosts, files: map[string]string{"go.mod": "module m\n", "go.sum": ""}},
	{name: "go without go.mod", lock: "go.sum", want: "gomod 0/0" + goHosts, files: map[string]string{"go.sum": goSum("a.b/c v1.0.0")}},
	{name: "go only go.mod hashes of others", lock: "go.sum", step: "yes", want: "gomod 1/1 hosts=a.b" + goHosts, files: map[string]string{
		"go.mod": "module m\nrequire a.b/c v1.0.0\n", "go.sum": goSum("a.b/c v1.0.0") + "d.e/f v1.0.0/go.mod h1:" + strings.Repeat("A", 43) + "=\n"}},
	{name: "cargo sources", lock: "Cargo.lock", want: "cargo 3/1 unhashed=r vcs=g local=app hosts=git.internal.example:8443,pkgs.internal.example implied=index.crates.io,static.crates.io", files: map[string]string{
		"Cargo.lock": "version = 4\n[[package]]\nname=\"app\"\nversion=\"1.0.0\"\n[[package]]\nname=\"g\"\nversion=\"1.0.0\"\nsource=\"git+https://git.internal.example:8443/g?branch=main#$C\"\n[[package]]\nname=\"r\"\nversion=\"1.0.0\"\nsource=\"registry+https://pkgs.internal.example/index\"\n[[package]]\nname=\"c\"\nversion=\"1.0.0\"\nsource=\"registry+https://github.com/rust-lang/crates.io-index\"\nchecksum=\"$H\"\n"}},
	{name: "cargo version 1", lock: "Cargo.lock", step: "yes", want: "cargo 1/1 implied=index.crates.io,static.crates.io", files: map[string]string{
		"Cargo.lock": "[[package]]\nname=\"app\"\nversion=\"1.0.0\"\ndependencies=[\"c 1.0.0 (registry+https://github.com/rust-lang/crates.io-index)\"]\n[[package]]\nname=\"c\"\nversion=\"1.0.0\"\nsource=\"registry+https://github.com/rust-lang/crates.io-index\"\n[metadata]\n\"checksum c 1.0.0 (registry+https://github.com/rust-lang/crates.io-index)\" = \"$H\"\n",
		"Cargo.toml": "[package]\nname=\"app\"\nversion=\"1.0.0\"\n[dependencies]\nc=\"1\"\n"}},
	{name: "cargo mirrored", lock: "Cargo.lock", step: "yes", want: "cargo 1/1 hosts=pkgs.internal.example", files: map[string]string{
		"Cargo.lock":         "version=3\n[[package]]\nname=\"app\"\nversion=\"1.0.0\"\ndependencies=[\"c\"]\n[[package]]\nname=\"c\"\nversion=\"1.0.0\"\nsource=\"registry+https://github.com/rust-lang/crates.io-index\"\nchecksum=\"$H\"\n",
		"Cargo.toml":         "[package]\nname=\"app\"\nversion=\"1.0.0\"\n[dependencies]\nc=\"1\"\n",
		".cargo/config.toml": "[source.crates-io]\nreplace-with=\"m\"\n[source.m]\nregistry=\"sparse+https://pkgs.internal.example/crates/\"\n"}},
	{name: "cargo git to registry", lock: "Cargo.lock", step: "no", want: "cargo 1/1 hosts=git.internal.example implied=index.crates.io,static.crates.io", files: map[string]string{
		"Cargo.lock": "version=4\n[[package]]\nname=\"app\"\nversion=\"1.0.0\"\ndependencies=[\"c\"]\n[[package]]\nname=\"c\"\nversion=\"1.0.0\"\nsource=\"registry+https://github.com/rust-lang/crates.io-index\"\nchecksum=\"$H\"\n",
		"Cargo.toml": "[package]\nname=\"app\"\nversion=\"1.0.0\"\n[dependencies]\nc={git=\"https://git.internal.example/c\"}\n"}},
	{name: "terraform private", lock: ".terraform.lock.hcl", step: "yes", want: "terraform 2/2 hosts=pkgs.internal.example,registry.terraform.io", files: map[string]string{
		".terraform.lock.hcl": "\ufeffprovider \"pkgs.internal.example/llm/router\" {\r\n  version = \"1.2.3\"\r\n" + tfHashes + "}\nprovider \"registry.terraform.io/hashicorp/aws\" {\n  version = \"5.94.1\"\n  constraints = \"~> 5.60, != 5.61.0\"\n" + tfHashes + "}\n",
		"main.tf":             "terraform {\n  required_providers {\n    router = { source = \"pkgs.internal.example/LLM/router\" }\n  }\n}\n/* [[[ */\nresource \"aws_s3_bucket\" \"b\" {\n  bucket = \"${var.x}-[\"\n}\nprovider \"aws\" {}\n",
		"versions.tf":         "terraform {\n  required_providers {\n    aws = { source = \"hashicorp/aws\", version = \"!=5.61, ~>5.60\" }\n  }\n}\n"}},
	{name: "terraform leftover", lock: ".terraform.lock.hcl", step: "no", want: "terraform 1/0 unhashed=registry.terraform.io/hashicorp/aws hosts=registry.terraform.io", files: map[string]string{
		".terraform.lock.hcl": "provider \"registry.terraform.io/hashicorp/aws\" {\n  version = \"5.94.1\"\n  hashes = []\n}\n", "main.tf": "locals {}\n"}},
	{name: "terraform modules", lock: ".terraform.lock.hcl", want: "terraform 1/1 hosts=git.internal.example,registry.terraform.io", files: map[string]string{
		".terraform.lock.hcl": "provider \"registry.terraform.io/hashicorp/aws\" {\n  version = \"5.94.1\"\n" + tfHashes + "}\n", "main.tf": "module \"m\" {\n  source = \"git::https://git.internal.example/m.git?ref=v1\"\n}\n"}},
	{name: "terraform implied provider", lock: ".terraform.lock.hcl", step: "no", want: "terraform 0/0 hosts=registry.terraform.io", files: map[string]string{
		".terraform.lock.hcl": "", "main.tf": "resource \"random_id\" \"x\" {}\n"}},
	{name: "terraform loose version", lock: ".terraform.lock.hcl", want: "terraform 0/1 unpinned=registry.terraform.io/hashicorp/aws hosts=registry.terraform.io", files: map[string]string{
		".terraform.lock.hcl": "provider \"registry.terraform.io/hashicorp/aws\" {\n  version = \"~> 5.94\"\n" + tfHashes + "}\n"}},
	// The digests were computed by Python's hashlib over the JSON written out.
	{name: "helm all fields", lock: "c/Chart.lock", step: "yes", want: "helm 1/0 unhashed=redis hosts=charts.internal.example", files: map[string]string{
		"c/Chart.lock": "dependencies:\n- {name: redis, repository: 'https://charts.internal.example/stable', version: 20.1.4}\ndigest: sha256:8d094b6cc2a0aec7d715ca894031cbc369699bd8c48df7ad5ac7ee7c502c0520\n",
		"c/Chart.yaml": "apiVersion: v2\nname: a\ndependencies:\n- {name: redis, version: '>=20 <21', repository: 'https://charts.internal.example/stable', condition: redis.enabled, tags: [cache], import-values: [data], alias: kv}\n"}},
	{name: "helm alias and charts folder", lock: "Chart.lock", step: "no", want: "helm 1/0 unpinned=b unhashed=a,b local=c", files: map[string]string{
		"Chart.lock": "dependencies:\n- {name: a, repository: '@internal', version: 1.2.3}\n- {name: b, repository: 'alias:internal', version: 1.x.x}\n- {name: c, repository: '', version: 1.0.0}\ndigest: sha256:x\n", "Chart.yaml": "apiVersion: v2\nname: x\n"}},
	{name: "helm without chart", lock: "Chart.lock", want: "helm 0/0", files: map[string]string{"Chart.lock": "dependencies: []\ndigest: sha256:x\n"}},
}
