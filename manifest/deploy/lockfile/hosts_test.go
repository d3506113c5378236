package lockfile

import "testing"

func TestHosts(t *testing.T) {
	tests := []struct {
		url  string
		want host
	}{
		{"https://pypi.org/simple", host{name: "pypi.org"}},
		{"https://PyPI.org:443/simple", host{name: "pypi.org:443"}},
		{"https://user@pkgs.internal.example/x", host{name: "pkgs.internal.example"}},
		{"https://user:s3cr3t@pkgs.internal.example:8443", host{name: "pkgs.internal.example:8443", secret: true}},
		{"https://user:p@ss/word@x.example/", host{name: "ss", secret: true}}, // an unescaped slash ends the authority
		{"https://ghp_0123456789abcdefghij@github.com/a/b", host{name: "github.com", secret: true}},
		{"https://deploy:${INDEX_TOKEN}@pkgs.internal.example/simple", host{name: "pkgs.internal.example"}},
		{"https://${U}:$P@pkgs.internal.example", host{name: "pkgs.internal.example"}},
		{"https://u:%(password)s@pkgs.internal.example/", host{name: "pkgs.internal.example"}},
		{"https://u:****@pkgs.internal.example/", host{name: "pkgs.internal.example"}},
		{"https://${A:-x/y}:p@h.example/z", host{name: "h.example", secret: true}},
		{"https://${HOST}/simple", host{hidden: true}},
		{"git+ssh://git@git.internal.example/a.git", host{name: "git.internal.example"}},
		{"git@git.internal.example:llm/a.git", host{name: "git.internal.example"}},
		{"oci://pkgs.internal.example/charts", host{name: "pkgs.internal.example"}},
		{"sparse+https://pkgs.internal.example/cargo/", host{name: "pkgs.internal.example"}},
		{"http://[::1]:8080/simple", host{name: "[::1]:8080"}},
		{"https://h.example?x=a@b", host{name: "h.example"}},
		{"file:///opt/wheels", host{}},
		{"git+file:///opt/repo", host{}},
		{"./wheels", host{}},
		{"", host{}},
		{"https://", host{}},
	}
	for _, test := range tests {
		if got := readHost(test.url); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.url, got, test.want)
		}
	}
}

// The ranges are those of the documentation of Cargo ("Specifying Dependencies")
// and Terraform ("Version Constraints").
func TestRanges(t *testing.T) {
	tests := []struct {
		spec, version, bare string
		ok                  bool
	}{
		{"1.2.3", "1.9.0", "^", true}, {"1.2.3", "2.0.0", "^", false}, {"1.2.3", "1.2.2", "^", false},
		{"0.2.3", "0.2.9", "^", true}, {"0.2.3", "0.3.0", "^", false}, {"0.0.3", "0.0.3", "^", true}, {"0.0.3", "0.0.4", "^", false},
		{"0.0", "0.0.7", "^", true}, {"0.0", "0.1.0", "^", false}, {"0", "0.9.0", "^", true}, {"0", "1.0.0", "^", false}, {"1", "1.9.0", "^", true},
		{"~1.2.3", "1.2.9", "^", true}, {"~1.2.3", "1.3.0", "^", false}, {"~1.2", "1.2.9", "^", true}, {"~1.2", "1.3.0", "^", false}, {"~1", "1.9.0", "^", true}, {"~1", "2.0.0", "^", false},
		{"*", "9.0.0", "^", true}, {"1.*", "1.9.0", "^", true}, {"1.*", "2.0.0", "^", false}, {"1.2.*", "1.2.9", "^", true}, {"1.2.*", "1.3.0", "^", false},
		{"=1.2", "1.2.7", "^", true}, {"=1.2.3", "1.2.4", "^", false}, {">= 1.2, < 1.5", "1.4.9", "^", true}, {">= 1.2, < 1.5", "1.5.0", "^", false},
		{"1.0.0-alpha.2", "1.0.0-alpha.10", "^", true}, {"1.0.0-beta", "1.0.0-alpha", "^", false}, {"1.2.3", "1.2.3+build", "^", true},
		{"~> 5.60", "5.94.1", "=", true}, {"~> 5.60", "6.0.0", "=", false}, {"~> 5.60.0", "5.60.9", "=", true}, {"~> 5.60.0", "5.61.0", "=", false},
		{"1.2.3", "1.2.3", "=", true}, {"1.2.3", "1.2.4", "=", false}, {">= 3.5", "3.7.1", "=", true}, {"!= 3.7.1", "3.7.1", "=", false}, {"> 3.7.0, <= 3.7.1", "3.7.1", "=", true},
	}
	for _, test := range tests {
		if ok, known := inRange(test.spec, test.version, test.bare); !known || ok != test.ok {
			t.Errorf("%s in %q (%s): %v, %v", test.version, test.spec, test.bare, ok, known)
		}
	}
	for _, bad := range []string{"latest", "1.2.3.4", ">=", "||"} {
		if _, known := inRange(bad, "1.0.0", "^"); known {
			t.Errorf("%q was understood", bad)
		}
	}
}

func TestMarkers(t *testing.T) {
	python, _ := readBounds(">=3.10,<3.13")
	tests := []struct {
		a, b string
		want verdict
	}{
		{"", "", same},
		{"python_version < '3.11'", "python_full_version < '3.11'", same},
		{"python_version <= '3.11'", "python_full_version < '3.12'", same},
		{"python_version == '3.11'", "python_full_version == '3.11.*'", same},
		{"python_version > '3.10'", "python_full_version >= '3.11'", same},
		{"'3.11' > python_version", "python_full_version < '3.11'", same},
		{"python_version >= '3.8'", "", same},
		{"python_version < '3.8'", "", different},
		{"python_version < '3.13'", "", same},
		{"python_version != '3.11'", "python_full_version < '3.11' or python_full_version >= '3.12'", same},
		{"sys_platform == 'linux' and sys_platform != 'win32'", "sys_platform == 'linux'", same},
		{"sys_platform == 'linux'", `sys_platform == "win32"`, different},
		{"sys_platform == 'linux' or os_name == 'nt'", "os_name == 'nt' or sys_platform == 'linux'", same},
		{"sys_platform == 'linux' or os_name == 'nt'", "os_name == 'nt' and sys_platform == 'linux'", different},
		{"(a == '1' or b == '2') and c == '3'", "a == '1' and c == '3' or b == '2' and c == '3'", same},
		{"extra == 'Foo_Bar'", "extra == 'foo-bar'", same},
		{"platform_release >= '5'", "platform_release >= '6'", different},
		{"'arm' in platform_machine", "'arm' in platform_machine", same},
		{"'arm' not in platform_machine", "'arm' in platform_machine", different},
	}
	for _, test := range tests {
		if got := sameMarker(test.a, test.b, python); got != test.want {
			t.Errorf("%q and %q: %v, want %v", test.a, test.b, got, test.want)
		}
	}
}
