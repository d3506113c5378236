package lockfile

import (
	"slices"
	"strings"
	"testing"
)

var (
	hash256 = strings.Repeat("a", 64)
	sha1    = strings.Repeat("b", 40)
)

// variant is a hand-made lock with what the format's documentation says of it.
// want is "pinned/hashed" and then the lists that are not empty.
type variant struct {
	name, lock, want string
	step             string
	files            map[string]string
}

// TestVariants reads what the corpus has no example of. The requirements were
// also given to pip 26.3's parser, which accepts and refuses the same ones.
func TestVariants(t *testing.T) {
	for _, v := range slices.Concat(requirementVariants, pythonVariants, otherVariants, moreVariants) {
		t.Run(v.name, func(t *testing.T) {
			var beside []File
			lock := File{Path: v.lock}
			for name, text := range v.files {
				f := File{Path: name, Data: []byte(strings.NewReplacer("$H", hash256, "$C", sha1).Replace(text))}
				if name == v.lock {
					lock = f
				}
				beside = append(beside, f)
			}
			got, problems := Read(lock, beside)
			if summary := summary(got); summary != v.want {
				t.Errorf("got  %s\nwant %s\n%s", summary, v.want, whats(problems))
			}
			if want := or(v.step, "unknown"); word(got.InStep) != want {
				t.Errorf("in step: %s, want %s; %s\n%s", word(got.InStep), want, got.Note, whats(problems))
			}
		})
	}
}

// summary writes facts in a few words.
func summary(f Facts) string {
	if !f.Readable {
		return "unreadable"
	}
	words := []string{f.Format, digits(f.Pinned) + "/" + digits(f.Hashed)}
	for _, list := range []struct {
		name  string
		items []string
	}{
		{"unpinned", f.Unpinned}, {"unhashed", f.Unhashed}, {"vcs", f.VCS}, {"local", f.Local}, {"hosts", f.Hosts}, {"implied", f.ImpliedHosts},
	} {
		if len(list.items) > 0 {
			words = append(words, list.name+"="+strings.Join(list.items, ","))
		}
	}
	return strings.Join(words, " ")
}

func digits(n int) string {
	return dotted([]int{n})
}

func req(name, text, want string, more ...string) variant {
	files := map[string]string{"requirements.txt": text}
	for i := 0; i+1 < len(more); i += 2 {
		files[more[i]] = more[i+1]
	}
	return variant{name: "requirements " + name, lock: "requirements.txt", want: want, files: files}
}

const pypi = " implied=pypi.org,files.pythonhosted.org"

var requirementVariants = []variant{
	req("CRLF and BOM", "\ufeffhttpx==0.28.1\r\nh11==0.16.0 \\\r\n    --hash=sha256:$H\r\n", "requirements 2/1 unhashed=httpx"+pypi),
	req("URLs", "router @ https://files.internal.example/router-1.0-py3-none-any.whl#sha256=$H\nhttps://files.internal.example/idna-3.10-py3-none-any.whl\nidna2@https://files.internal.example:8443/x.tar.gz ; python_version > \"3\"\n",
		"requirements 3/1 unhashed=idna,idna2 hosts=files.internal.example,files.internal.example:8443"+pypi),
	req("git", "git+https://git.internal.example/llm/a.git@$C#egg=a-x\nb @ git+ssh://git@git.internal.example/llm/b.git@v1\n-e git+https://git.internal.example/llm/c.git@$C#egg=c\n",
		"requirements 2/0 unpinned=b vcs=a-x,b,c hosts=git.internal.example"+pypi),
	req("paths", "./libs/metrics\n-e ./libs/auth\n-e .\n.[dev]\n--editable=libs/x\nfile:///opt/wheels/y-1.0-py3-none-any.whl\nz @ file:///opt/z\nwheels/idna-3.10-py3-none-any.whl\n",
		"requirements 0/0 local=idna,metrics,sidecar-auth,x,y,z"+pypi, "libs/auth/pyproject.toml", "[project]\nname = \"Sidecar_Auth\"\n"),
	req("options", "-i https://pkgs.internal.example/simple\n-f https://wheels.internal.example/\n--no-binary :all:\n--pre\n--require-hashes\nidna==3.10 --hash sha256:$H\n",
		"requirements 1/1 hosts=pkgs.internal.example,wheels.internal.example"),
	req("no index", "--no-index --find-links=./wheels\nidna==3.10\n", "requirements 1/0 unhashed=idna"),
	req("attached options", "-rbase.txt\n-cconstraints.txt\nhttpx\n", "requirements 2/0 unhashed=h11,httpx"+pypi, "base.txt", "h11==0.16.0\n", "constraints.txt", "httpx==0.28.1\n"),
	req("nested constraints", "-c more/c.txt\nHTTPX[http2]\nidna>=2\n", "requirements 2/0 unhashed=httpx,idna"+pypi, "more/c.txt", "httpx==0.28.1 # x\n-r d.txt\n", "more/d.txt", "idna==3.10\n"),
	req("circle", "-r base.txt\nidna==3.10\n", "unreadable", "base.txt", "-r requirements.txt\n"),
	req("include of a URL", "-r https://pkgs.internal.example/base.txt\n", "unreadable"),
	req("unknown option", "--frobnicate\nidna==3.10\n", "unreadable"),
	req("no version after ==", "idna==\n", "unreadable"),
	req("TOML", "[project]\nname = \"x\"\n", "unreadable"),
	req("JSON", "{\"a\": 1}\n", "unreadable"),
	req("name outside ASCII", "grüße==1.0\n", "unreadable"),
	req("comment glued on", "idna==3.10#x\n", "unreadable"),
	req("comments outside ASCII", "# grüße\nidna==3.10 # ünïcode\n", "requirements 1/0 unhashed=idna"+pypi),
	req("parentheses", "idna (>=3,<4)\nh11 (==0.16.0)\n", "requirements 1/0 unpinned=idna unhashed=h11,idna"+pypi),
	req("extras and marker", "Uvicorn [standard, x] == 0.35.0 ; sys_platform == \"linux\"  # note\n", "requirements 1/0 unhashed=uvicorn"+pypi),
	req("comment ends a join", "# a \\\nidna==3.10 \\\n# b\n  --hash=sha256:$H\n", "requirements 1/0 unhashed=idna"+pypi),
	req("join at the end", "idna==3.10 \\\n", "requirements 1/0 unhashed=idna"+pypi),
	req("empty", "", "requirements 0/0"+pypi),
	req("two versions by marker", "numpy==1.26.4 ; python_version < \"3.12\"\nnumpy==2.1.0 ; python_version >= \"3.12\"\n", "requirements 2/0 unhashed=numpy"+pypi),
	req("local versions and epochs", "torch==2.5.1+cu124\nbar==1!2.0\nbaz==1.0rc1\n", "requirements 3/0 unhashed=bar,baz,torch"+pypi),
	req("ranges", "a==1.*\nb~=1.4.2\nc<2\nd>1,<2\ne!=1\nf\n", "requirements 0/0 unpinned=a,b,c,d,e,f unhashed=a,b,c,d,e,f"+pypi),
	req("IPv6", "--index-url http://[::1]:8080/simple\nidna==3.10\n", "requirements 1/0 unhashed=idna hosts=[::1]:8080"),
	req("host in a variable", "--index-url https://${INDEX_HOST}/simple\nidna==3.10\n", "requirements 1/0 unhashed=idna"),
	req("pip.conf", "idna==3.10\n", "requirements 1/0 unhashed=idna hosts=a.internal.example,b.internal.example,pkgs.internal.example",
		"pip.conf", "[global]\nindex-url = https://pkgs.internal.example/simple\nextra-index-url =\n    https://a.internal.example/\n    https://b.internal.example/\n"),
	{name: "uv export", lock: "requirements.txt", want: "requirements 1/0 unhashed=idna" + pypi,
		files: map[string]string{"requirements.txt": "# This file was autogenerated by uv via the following command:\n#    uv export --format requirements-txt\nidna==3.10\n"}},
	{name: "uv pip compile", lock: "deploy/requirements.txt", want: "pip-compile 1/0 unhashed=idna" + pypi, step: "no", files: map[string]string{
		"deploy/requirements.txt": "# This file was autogenerated by uv via the following command:\n#    uv pip compile deploy/base.in -o deploy/requirements.txt\nidna==3.10\n    # via -r deploy/base.in\n",
		"deploy/base.in":          "idna>=3.11\n"}},
	{name: "pip-compile of pyproject.toml", lock: "requirements.txt", want: "pip-compile 2/0 unhashed=h11,idna" + pypi, step: "yes", files: map[string]string{
		"requirements.txt": "#\n# This file is autogenerated by pip-compile with Python 3.11\n# by the following command:\n#\n#    pip-compile --extra=x --output-file=requirements.txt pyproject.toml\n#\nh11==0.16.0\n    # via app (pyproject.toml)\nidna==3.10\n    # via app (pyproject.toml)\n",
		"pyproject.toml":   "[project]\nname=\"app\"\nversion=\"1\"\ndependencies=[\"idna\"]\noptional-dependencies.x=[\"h11\"]\noptional-dependencies.y=[\"nowhere\"]\n"}},
	{name: "pip-compile without its source", lock: "requirements.txt", want: "pip-compile 1/0 unhashed=idna" + pypi, files: map[string]string{
		"requirements.txt": "# This file is autogenerated by pip-compile with Python 3.11\n#    pip-compile other.in\nidna==3.10\n"}},
}

const poetryTail = "[metadata]\nlock-version = \"2.1\"\ncontent-hash = \"x\"\n"

var pythonVariants = []variant{
	{name: "poetry sources", lock: "poetry.lock", want: "poetry 3/1 unpinned=g2 unhashed=nofiles vcs=g1,g2 local=dir,file hosts=files.internal.example,git.internal.example" + pypi, files: map[string]string{
		"poetry.lock": "[[package]]\nname=\"g1\"\nversion=\"1\"\nfiles=[]\n[package.source]\ntype=\"git\"\nurl=\"https://git.internal.example/g1.git\"\nreference=\"main\"\nresolved_reference=\"$C\"\n" +
			"[[package]]\nname=\"g2\"\nversion=\"1\"\nfiles=[]\n[package.source]\ntype=\"git\"\nurl=\"git@git.internal.example:llm/g2.git\"\nresolved_reference=\"main\"\n" +
			"[[package]]\nname=\"dir\"\nversion=\"1\"\nfiles=[]\n[package.source]\ntype=\"directory\"\nurl=\"libs/dir\"\n" +
			"[[package]]\nname=\"file\"\nversion=\"1\"\nfiles=[]\n[package.source]\ntype=\"file\"\nurl=\"x.whl\"\n" +
			"[[package]]\nname=\"url\"\nversion=\"1\"\nfiles=[{file=\"url-1.whl\", hash=\"sha256:$H\"}]\n[package.source]\ntype=\"url\"\nurl=\"https://u:p@files.internal.example/url-1.whl\"\n" +
			"[[package]]\nname=\"nofiles\"\nversion=\"1\"\nfiles=[]\n" + poetryTail}},
	{name: "poetry 1.1 files", lock: "poetry.lock", want: "poetry 1/1" + pypi, files: map[string]string{
		"poetry.lock": "[[package]]\nname=\"Foo_Bar\"\nversion=\"1\"\n[metadata]\nlock-version=\"1.1\"\ncontent-hash=\"x\"\n[metadata.files]\nfoo-bar=[{file=\"a\",hash=\"sha256:$H\"}]\n"}},
	{name: "poetry primary source", lock: "poetry.lock", want: "poetry 0/0 hosts=pkgs.internal.example", step: "no", files: map[string]string{
		"poetry.lock": poetryTail, "pyproject.toml": "[[tool.poetry.source]]\nname=\"internal\"\nurl=\"https://pkgs.internal.example/simple\"\n"}},
	{name: "poetry without metadata", lock: "poetry.lock", want: "unreadable", files: map[string]string{"poetry.lock": "[[package]]\nname=\"a\"\nversion=\"1\"\n"}},
	{name: "poetry empty", lock: "poetry.lock", want: "unreadable", files: map[string]string{"poetry.lock": ""}},
	{name: "pdm sources", lock: "pdm.lock", want: "pdm 3/2 vcs=g local=me hosts=files.internal.example,files.pythonhosted.org,git.internal.example implied=pypi.org", files: map[string]string{
		"pdm.lock": "[metadata]\nlock_version=\"4.5.0\"\ncontent_hash=\"sha256:x\"\n[[package]]\nname=\"g\"\nversion=\"1\"\ngit=\"https://git.internal.example/g.git\"\nref=\"v1\"\nrevision=\"$C\"\n" +
			"[[package]]\nname=\"me\"\nversion=\"1\"\neditable=true\npath=\"./libs/me\"\n" +
			"[[package]]\nname=\"u\"\nversion=\"1\"\nurl=\"https://files.internal.example/u.whl\"\nfiles=[{url=\"https://files.internal.example/u.whl\", hash=\"sha256:$H\"}]\n" +
			"[[package]]\nname=\"s\"\nversion=\"1\"\nfiles=[{url=\"https://files.pythonhosted.org/s.whl\", hash=\"sha256:$H\"}]\n"}},
	{name: "pipenv sources", lock: "Pipfile.lock", want: "pipenv 4/2 unpinned=loose unhashed=h,loose vcs=g local=p hosts=git.internal.example,pkgs.internal.example,pypi.org implied=files.pythonhosted.org", files: map[string]string{
		"Pipfile.lock": `{"_meta":{"sources":[{"name":"pypi","url":"https://pypi.org/simple"},{"name":"i","url":"https://${U}:${P}@pkgs.internal.example/simple"}]},
		"default":{"g":{"git":"https://git.internal.example/g.git","ref":"$C"},"me":{"editable":true,"path":"."},"p":{"file":"./x.whl"},"a":{"version":"==1","hashes":["sha256:$H"]},"loose":{"version":"*"}},
		"develop":{"a":{"version":"==1","hashes":["sha256:$H"]}},"lint":{"a":{"version":"==2","hashes":["sha256:$H"]},"g":{"git":"https://git.internal.example/g.git","ref":"$C"},"h":{"version":"===1"}}}`}},
	{name: "pipenv without _meta", lock: "Pipfile.lock", want: "unreadable", files: map[string]string{"Pipfile.lock": `{"default":{}}`}},
	{name: "pylock kinds", lock: "pylock.dev.toml", want: "pylock 4/2 unhashed=weak vcs=g local=d hosts=files.internal.example,git.internal.example,pkgs.internal.example", files: map[string]string{
		"pylock.dev.toml": "lock-version=\"1.0\"\ncreated-by=\"x\"\n[[packages]]\nname=\"g\"\nvcs={type=\"git\",url=\"https://git.internal.example/g\",commit-id=\"$C\"}\n" +
			"[[packages]]\nname=\"d\"\ndirectory={path=\"libs/d\",editable=true}\n[[packages]]\nname=\"me\"\ndirectory={path=\".\"}\n" +
			"[[packages]]\nname=\"a\"\narchive={url=\"https://files.internal.example/a.tar.gz\",hashes={sha512=\"" + strings.Repeat("c", 128) + "\"}}\n" +
			"[[packages]]\nname=\"w\"\nversion=\"1\"\nindex=\"https://pkgs.internal.example/simple\"\nwheels=[{name=\"w.whl\",url=\"https://files.internal.example/w.whl\",hashes={sha256=\"$H\",md5=\"x\"}}]\n" +
			"[[packages]]\nname=\"weak\"\nversion=\"1\"\nsdist={url=\"https://files.internal.example/weak.tar.gz\",hashes={md5=\"" + strings.Repeat("d", 32) + "\"}}\n"}},
	{name: "pylock without created-by", lock: "pylock.toml", want: "unreadable", files: map[string]string{"pylock.toml": "lock-version=\"1.0\"\n"}},
	{name: "pylock bound", lock: "pylock.toml", want: "pylock 1/0 unhashed=idna", step: "no", files: map[string]string{
		"pylock.toml": "lock-version=\"1.0\"\ncreated-by=\"x\"\n[[packages]]\nname=\"idna\"\nversion=\"3.10\"\n", "pyproject.toml": "[project]\nname=\"a\"\nversion=\"1\"\ndependencies=[\"IDNA>=3.11\"]\n"}},
	{name: "conda kinds", lock: "conda-lock.yml", want: "conda-lock 4/3 vcs=g hosts=git.internal.example,pkgs.internal.example implied=conda.anaconda.org", files: map[string]string{
		"conda-lock.yml": "version: 1\nmetadata:\n  content_hash: {linux-64: x, osx-64: y}\n  channels: [{url: conda-forge, used_env_vars: []}, {url: 'https://pkgs.internal.example/conda'}]\n  platforms: [linux-64, osx-64]\n  sources: [../environment.yml]\npackage:\n" +
			condaEntry("a", "linux-64", "https://pkgs.internal.example/conda/a.conda", "{md5: "+strings.Repeat("d", 32)+"}") + condaEntry("a", "osx-64", "https://pkgs.internal.example/conda/a.conda", "{sha256: $H}") +
			condaEntry("b", "linux-64", "https://u:${P}@pkgs.internal.example/b.whl", "{sha256: $H}") + condaEntry("g", "linux-64", "git+https://git.internal.example/g.git@$C", "{sha256: ''}")}},
	{name: "conda short hash", lock: "conda-lock.yml", want: "unreadable", files: map[string]string{
		"conda-lock.yml": "version: 1\nmetadata: {}\npackage:\n" + condaEntry("a", "linux-64", "https://x.example/a", "{md5: abc}")}},
}

func condaEntry(name, platform, url, hash string) string {
	return "- {name: " + name + ", version: '1', manager: conda, platform: " + platform + ", dependencies: {}, url: '" + url + "', hash: " + hash + ", category: main, optional: false}\n"
}
