package lockfile

import "strings"

const uvHead = "version = 1\nrevision = 3\nrequires-python = \">=3.11\"\n"

const uvApp = "[[package]]\nname = \"app\"\nversion = \"0.1.0\"\nsource = { virtual = \".\" }\n"

func uvEntry(name, source, more string) string {
	return "[[package]]\nname = \"" + name + "\"\nversion = \"1.0\"\nsource = { " + source + " }\n" + more
}

const uvWheel = "wheels = [{ url = \"https://files.pythonhosted.org/x.whl\", hash = \"sha256:$H\", size = 1 }]\n"

func alone(name, lock, text, want string, more ...string) variant {
	v := variant{name: name, lock: lock, want: want, files: map[string]string{lock: text}}
	for i := 0; i+1 < len(more); i += 2 {
		v.files[more[i]] = more[i+1]
	}
	return v
}

// moreVariants are locks of a newer form, with odd line ends and marks, and of the
// kinds of source that the corpus shows in other formats only. A version above those
// that a format's documentation defines is refused by each tool, so it is unreadable.
var moreVariants = []variant{
	alone("uv empty", "uv.lock", "", "unreadable"),
	alone("uv of a newer version", "uv.lock", strings.Replace(uvHead, "version = 1", "version = 2", 1)+uvApp, "unreadable"),
	alone("uv with CRLF", "uv.lock", strings.ReplaceAll(uvHead+uvApp+uvEntry("idna", `registry = "https://pypi.org/simple"`, uvWheel), "\n", "\r\n"), "uv 1/1 hosts=files.pythonhosted.org,pypi.org"),
	alone("uv sources", "uv.lock", uvHead+uvApp+uvEntry("g", `git = "https://git.internal.example/g.git?rev=v1#$C"`, "")+uvEntry("p", `path = "wheels/p.whl"`, "")+
		uvEntry("d", `directory = "libs/d"`, "")+uvEntry("e", `editable = "libs/e"`, "")+
		uvEntry("u", `url = "https://files.internal.example/u.whl"`, "wheels = [{ url = \"https://files.internal.example/u.whl\", hash = \"sha256:$H\" }]\n"),
		"uv 2/1 vcs=g local=d,e,p hosts=files.internal.example,git.internal.example"),
	alone("uv private index, one file unhashed", "uv.lock", uvHead+uvApp+uvEntry("r", `registry = "https://pkgs.internal.example/simple"`,
		"sdist = { url = \"https://pkgs.internal.example/r.tar.gz\", size = 1 }\nwheels = [{ url = \"https://pkgs.internal.example/r.whl\", hash = \"sha256:$H\" }]\n"),
		"uv 1/0 unhashed=r hosts=pkgs.internal.example"),
	alone("uv merge conflict", "uv.lock", uvHead+"<<<<<<< ours\n"+uvApp+"=======\n>>>>>>> theirs\n", "unreadable"),
	alone("poetry of a newer version", "poetry.lock", strings.Replace(poetryTail, "2.1", "3.0", 1), "unreadable"),
	alone("poetry with CRLF", "poetry.lock", strings.ReplaceAll("[[package]]\nname=\"a\"\nversion=\"1\"\nfiles=[{file=\"a.whl\",hash=\"sha256:$H\"}]\n"+poetryTail, "\n", "\r\n"), "poetry 1/1"+pypi),
	alone("poetry half written", "poetry.lock", "[[package]]\nname=\"a\"\nversion=\"1\"\nfiles=[{file=\"a.whl\",hash=\"sha", "unreadable"),
	alone("pdm of a newer version", "pdm.lock", "[metadata]\nlock_version=\"5.0\"\ncontent_hash=\"sha256:x\"\n", "unreadable"),
	alone("pdm unhashed", "pdm.lock", "[metadata]\nlock_version=\"4.5.0\"\ncontent_hash=\"sha256:x\"\n[[package]]\nname=\"a\"\nversion=\"1\"\n", "pdm 1/0 unhashed=a"+pypi),
	alone("pipenv empty", "Pipfile.lock", "", "unreadable"),
	alone("pipenv with a trailing comma", "Pipfile.lock", `{"_meta":{"sources":[]},"default":{},}`, "unreadable"),
	alone("pipenv CRLF", "Pipfile.lock", "{\r\n\"_meta\": {\"sources\": [{\"name\": \"pypi\", \"url\": \"https://pypi.org/simple\"}]},\r\n\"default\": {\"a\": {\"version\": \"==1\", \"hashes\": [\"sha256:$H\"]}}}\r\n", "pipenv 1/1 hosts=pypi.org implied=files.pythonhosted.org"),
	alone("pylock of a newer version", "pylock.toml", "lock-version=\"2.0\"\ncreated-by=\"x\"\n", "unreadable"),
	alone("pylock of a newer minor version", "pylock.toml", "lock-version=\"1.1\"\ncreated-by=\"x\"\n", "pylock 0/0"),
	alone("pylock unpinned commit", "pylock.toml", "lock-version=\"1.0\"\ncreated-by=\"x\"\n[[packages]]\nname=\"g\"\nvcs={type=\"git\",url=\"https://git.internal.example/g\",commit-id=\"main\"}\n",
		"pylock 0/0 unpinned=g vcs=g hosts=git.internal.example"),
	alone("conda of a newer version", "conda-lock.yml", "version: 2\nmetadata: {}\npackage: []\n", "unreadable"),
	alone("conda empty", "conda-lock.yml", "", "unreadable"),
	alone("conda without hashes", "conda-lock.yml", "version: 1\nmetadata: {channels: [{url: conda-forge}]}\npackage:\n"+condaEntry("a", "linux-64", "https://conda.anaconda.org/conda-forge/a.conda", "{}"),
		"conda-lock 1/0 unhashed=a hosts=conda.anaconda.org"),
	alone("cargo of a newer version", "Cargo.lock", "version = 5\n", "unreadable"),
	alone("cargo with CRLF", "Cargo.lock", "version = 4\r\n[[package]]\r\nname=\"c\"\r\nversion=\"1.0.0\"\r\nsource=\"registry+https://github.com/rust-lang/crates.io-index\"\r\nchecksum=\"$H\"\r\n", "cargo 1/1 implied=index.crates.io,static.crates.io"),
	alone("go.sum with a line cut off", "go.sum", "a.b/c v1.0.0 h1:AAAA\n", "unreadable", "go.mod", "module m\nrequire a.b/c v1.0.0\n"),
	alone("terraform not closed", ".terraform.lock.hcl", "provider \"registry.terraform.io/hashicorp/aws\" {\n  version = \"5.94.1\"\n", "unreadable"),
	alone("helm cut off", "Chart.lock", "dependencies:\n- {name: a, repository: 'https://charts.internal.example', version", "unreadable"),
}
