package lockfile

import "testing"

// TestCondaHash compares with content hashes that conda-lock 4.0.3 itself
// computed for this environment.
func TestCondaHash(t *testing.T) {
	const text = `# comment
name: x
channels: [conda-forge, nvidia, nodefaults]
platforms: [linux-64, osx-64, win-64, linux-aarch64, osx-arm64]
dependencies:
  - python =3.11
  - numpy 1.26.*
  - scipy==1.11.4
  - pandas >=2,<3
  - Requests
  - foo_bar=1.2.*
  - aaa >= 0.27
  - bbb 1.2
  - ccc>1,!=1.5
  - ddd ~=1.4
  - eee==2.*
  - pip:
    - FastAPI[all,Standard] >=0.110, <1
    - Typing_Extensions
    - uvicorn==0.30.0
`
	want := map[string]string{
		"linux-64":      "0dd5efaadb6dd445dc14a0c5318f699b4cd4078c3a583c13151752abaf0a6736",
		"osx-64":        "da6f57979224ce383065b36d2c0d59f80e16006ac2f954f8692e4ae85dd261a1",
		"win-64":        "0adf4e150292fc1c6072ab3e2e604bda4b4f9433e584c66a72f3097ce9c581e6",
		"linux-aarch64": "467e98ccb109c6b5e4448bd39d024eef1cec835f1cefbe443db45e57d52c1799",
		"osx-arm64":     "682ea9cc6a64d013ed48f9d48b4f72c60fc925c98f3aa99efb83499553461b7c",
	}
	for platform, hash := range want {
		condaHash(t, text, platform, hash)
	}
	condaHash(t, "channels: [https://pkgs.internal.example/conda, conda-forge]\ndependencies: [conda-forge::numpy>=1, https://pkgs.internal.example/conda::router-proto=1.2]\n",
		"linux-64", "b57c5b2c6412754b149f940cb3e993e67d9a6422dfb87b96938c94fed96df92b")
	condaHash(t, "channels: [conda-forge]\npip-repositories: [https://pkgs.internal.example/simple]\ndependencies: [python=3.11, {pip: [router-proto>=1.2]}]\n",
		"linux-64", "45ebe183d91b389fe9dbe8401fd1222ae313b5f83643a693938d9ae932ebf6af")
}

func condaHash(t *testing.T, text, platform, want string) {
	t.Helper()
	var e environment
	if err := decodeYAML([]byte(text), &e); err != nil {
		t.Fatal(err)
	}
	specs, ok := e.hashed()
	if !ok {
		t.Fatal("the requirements were not understood")
	}
	if got := condaHashes(e, specs, platform); got[0] != want {
		t.Errorf("%s: %s, want %s", platform, got[0], want)
	}
}
