package batch

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"drkit/internal/errext"
	"drkit/internal/store"
	"drkit/manifest/digest"
	"drkit/verify"
)

// SHA-256 of "abc" as FIPS 180-2 appendix B.1 gives it, and that in base64.
const (
	abcHex    = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	abcBase64 = "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="
)

// result is a result message as it stands in a CSV field.
func result(fields string) string { return `"` + strings.ReplaceAll(fields, `"`, `""`) + `"` }

func abc(etag string) string {
	return result(`{"checksum_base64":"` + abcBase64 + `","checksum_hex":"` + strings.ToUpper(abcHex) + `","etag":"` + etag + `","checksumAlgorithm":"SHA256","checksumType":"FULL_OBJECT"}`)
}

// folder is a report as S3 lays it out, with one file for each status.
func folder(files map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	var results []string
	for status, content := range files {
		sum := md5.Sum([]byte(content))
		name := status + "0fab0de85c408b4be96aeaca9b195a7daa5.csv"
		out["results/"+name] = &fstest.MapFile{Data: []byte(content)}
		results = append(results, fmt.Sprintf(`{"TaskExecutionStatus":%q,"Bucket":"reports","MD5Checksum":%q,"Key":"drkit-batch/report/job-f8fb9d89/results/%s"}`, status, hex.EncodeToString(sum[:]), name))
	}
	out["manifest.json"] = &fstest.MapFile{Data: []byte(`{"Format":"Report_CSV_20180820","ReportCreationDate":"2026-04-05T17:48:39.725Z","Results":[` + strings.Join(results, ",") +
		`],"ReportSchema":"Bucket, Key, VersionId, TaskStatus, ErrorCode, HTTPStatusCode, ResultMessage"}`)}
	return out
}

func only(keys ...string) func(string) bool {
	return func(key string) bool {
		for _, k := range keys {
			if k == key {
				return true
			}
		}
		return false
	}
}

func everything(string) bool { return true }

func TestReadReport(t *testing.T) {
	report := folder(map[string]string{
		"succeeded": "b,llm/one,,succeeded,200,," + abc("e1-2") + "\nb,other,,succeeded,200,," + abc("x") + "\nelsewhere,llm/one,,succeeded,200,," + abc("y") + "\n",
		"failed":    `b,llm/two,v7,failed,AccessDenied,403,"Access Denied, ""really"""` + "\nb,llm/three,,failed,200,PermanentFailure,odd\n",
	})
	got, err := Read(report, "b", only("llm/one", "llm/two", "llm/three"))
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 4, 5, 17, 48, 39, 725e6, time.UTC); !got.Created.Equal(want) || got.Others != 2 || len(got.Tasks) != 3 {
		t.Errorf("%+v", got)
	}
	byKey := map[string]Task{}
	for _, task := range got.Tasks {
		byKey[task.Key] = task
	}
	if want := (Task{Key: "llm/two", Version: "v7", Failed: true, Code: "AccessDenied", HTTP: "403", Message: `Access Denied, "really"`}); byKey["llm/two"] != want {
		t.Errorf("%+v", byKey["llm/two"])
	}
	if three := byKey["llm/three"]; three.Code != "PermanentFailure" || three.HTTP != "200" {
		t.Errorf("swapped columns: %+v", three)
	}
	known, unusable := got.Known()
	want := map[string]verify.Known{"llm/one": {ETag: "e1-2", Sums: []store.Sum{{Digest: digest.Digest{Algorithm: "sha256", Hex: abcHex}, Evidence: store.Recomputed}}}}
	if !reflect.DeepEqual(known, want) {
		t.Errorf("%v", known)
	}
	if len(unusable) != 2 || !strings.Contains(fmt.Sprint(unusable), "AccessDenied 403") {
		t.Errorf("%v", unusable)
	}
}

// TestStates: a checksum counts for one state of the object only.
func TestStates(t *testing.T) {
	row := func(version, etag string) string { return "b,k," + version + ",succeeded,200,," + abc(etag) + "\n" }
	for name, c := range map[string]struct {
		rows          string
		version, etag string
		sums          int
		why           string
	}{
		"ETag":               {row("", `\"e\"`), "", "e", 1, ""},
		"version":            {row("v1", ""), "v1", "", 1, ""},
		"both":               {row("v1", "e"), "v1", "e", 1, ""},
		"null version":       {row("null", "e"), "", "e", 1, ""},
		"neither":            {row("", ""), "", "", 0, "neither"},
		"null version alone": {row("null", ""), "", "", 0, "neither"},
		"twice":              {row("v1", "e") + row("v1", "e"), "v1", "e", 2, ""},
		"two versions":       {row("v1", "e") + row("v2", "f"), "v1", "e", 1, "two states"},
	} {
		report, err := Read(folder(map[string]string{"succeeded": c.rows}), "b", only("k"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		known, unusable := report.Known()
		if k := known["k"]; k.Version != c.version || k.ETag != c.etag || len(k.Sums) != c.sums {
			t.Errorf("%s: %+v", name, k)
		}
		if (c.why == "") != (len(unusable) == 0) || (c.why != "" && !strings.Contains(unusable[0].Why, c.why)) {
			t.Errorf("%s: %v", name, unusable)
		}
	}
}

func TestValues(t *testing.T) {
	for name, c := range map[string]struct {
		r    Result
		want string // digest, or what the error says
	}{
		"hex alone":     {Result{"SHA256", "FULL_OBJECT", "", abcHex, ""}, "sha256:" + abcHex},
		"base64 alone":  {Result{"SHA256", "FULL_OBJECT", abcBase64, "", ""}, "sha256:" + abcHex},
		"crc64nvme":     {Result{"CRC64NVME", "FULL_OBJECT", "", "ae8b14860a799888", ""}, "crc64nvme:ae8b14860a799888"},
		"crc32":         {Result{"CRC32", "FULL_OBJECT", "y/Q5Jg==", "", ""}, "crc32:cbf43926"},
		"contradiction": {Result{"SHA256", "FULL_OBJECT", abcBase64, strings.Repeat("0", 64), ""}, "not one value"},
		"composite":     {Result{"SHA256", "COMPOSITE", abcBase64, "", ""}, "FULL_OBJECT"},
		"sha1":          {Result{"SHA1", "FULL_OBJECT", "", strings.Repeat("0", 40), ""}, "SHA256"},
		"too short":     {Result{"SHA256", "FULL_OBJECT", "", "ba78", ""}, "none by SHA256"},
		"nothing":       {Result{"SHA256", "FULL_OBJECT", "", "", ""}, "none by SHA256"},
		"no base64":     {Result{"SHA256", "FULL_OBJECT", "!", "", ""}, "not one value"},
		"another's":     {Result{"CRC32", "FULL_OBJECT", "", abcHex, ""}, "none by CRC32"},
	} {
		d, err := c.r.digest()
		if got := d.String() + fmt.Sprint(err); !strings.Contains(got, c.want) || (err == nil && d.String() != c.want) {
			t.Errorf("%s: %s, %v", name, d, err)
		}
	}
}

// TestKeysOfReports: "a+b" may be itself or, encoded, "a b".
func TestKeysOfReports(t *testing.T) {
	for name, c := range map[string]struct {
		wanted  func(string) bool
		written []string
		want    []string // nil: refused
	}{
		"plain names":           {only("a", "b"), []string{"a", "b"}, []string{"a", "b"}},
		"encoded":               {only("a+b", "a b"), []string{"a%2Bb", "a%20b"}, []string{"a+b", "a b"}},
		"encoded as a form":     {only("a+b", "a b"), []string{"a%2Bb", "a+b"}, []string{"a+b", "a b"}},
		"not encoded":           {only("a+b", "a%2Bb", "a b", "100%"), []string{"100%", "a+b", "a%2Bb", "a b"}, []string{"100%", "a+b", "a%2Bb", "a b"}},
		"leaves it open":        {only("a+b", "a b"), []string{"a+b"}, nil},
		"both at once":          {only("a b", "100%"), []string{"a+b", "100%"}, nil},
		"a plus, and no space":  {only("a+b"), []string{"a+b"}, []string{"a+b"}},
		"a space, and no plus":  {only("a b"), []string{"a+b"}, []string{"a b"}},
		"none of those wanted":  {only("c"), []string{"a", "b"}, []string{}},
		"encoded twice is none": {only("a b"), []string{"a%2520b"}, []string{}},
	} {
		var content strings.Builder
		for _, k := range c.written {
			content.WriteString("b," + k + ",,succeeded,200,," + abc("e") + "\n")
		}
		report, err := Read(folder(map[string]string{"succeeded": content.String()}), "b", c.wanted)
		if c.want == nil {
			if err == nil {
				t.Errorf("%s: not refused: %+v", name, report)
			}
			continue
		}
		got := []string{}
		if report != nil {
			for _, task := range report.Tasks {
				got = append(got, task.Key)
			}
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestDamagedReports(t *testing.T) {
	good := "b,k,,succeeded,200,," + abc("e") + "\n"
	change := func(f func(fstest.MapFS)) fstest.MapFS {
		m := folder(map[string]string{"succeeded": good})
		f(m)
		return m
	}
	index := func(old, new string) fstest.MapFS {
		return change(func(m fstest.MapFS) {
			m["manifest.json"].Data = []byte(strings.Replace(string(m["manifest.json"].Data), old, new, 1))
		})
	}
	csvOf := func(content string) fstest.MapFS { return folder(map[string]string{"succeeded": content}) }
	for name, c := range map[string]struct {
		report fstest.MapFS
		want   string
	}{
		"no index":                  {fstest.MapFS{}, "manifest.json"},
		"index is no JSON":          {fstest.MapFS{"manifest.json": {Data: []byte("<html>")}}, "no JSON"},
		"the job's own manifest":    {fstest.MapFS{"manifest.json": {Data: []byte("{}")}}, "format"},
		"another format":            {index("Report_CSV_20180820", "Report_CSV_2099"), "format"},
		"other columns":             {index("VersionId, ", ""), "columns"},
		"bad date":                  {index("2026-04-05T", "yesterday"), "date"},
		"no results":                {fstest.MapFS{"manifest.json": {Data: []byte(`{"Format":"Report_CSV_20180820","Results":[]}`)}}, "no results"},
		"a file is missing":         {change(func(m fstest.MapFS) { delete(m, "results/succeeded0fab0de85c408b4be96aeaca9b195a7daa5.csv") }), "succeeded0fab"},
		"a file was cut":            {change(func(m fstest.MapFS) { m["results/succeeded0fab0de85c408b4be96aeaca9b195a7daa5.csv"].Data = nil }), "MD5"},
		"MD5 is not said":           {index(`"MD5Checksum":"`, `"Other":"`), "MD5"},
		"named twice":               {change(func(m fstest.MapFS) { twice(m) }), "twice"},
		"six columns":               {csvOf("b,k,,succeeded,200,\n"), "fields"},
		"open quote":                {csvOf("b,k,,succeeded,200,,\"x\n"), "quote"},
		"a row without end":         {csvOf("b,k,,succeeded,200,,\"" + strings.Repeat("x", 2*maxRecord)), "a row has more"},
		"unknown status":            {csvOf("b,k,,perhaps,200,," + abc("e") + "\n"), `"perhaps"`},
		"failed among succeeded":    {csvOf("b,k,,failed,200,,\n"), "failed in a file"},
		"not of a checksum job":     {csvOf("b,k,,succeeded,200,,Successful\n"), "not that of a checksum job"},
		"a list where an object is": {csvOf("b,k,,succeeded,200,,[]\n"), "not that of a checksum job"},
	} {
		if r, err := Read(c.report, "b", only("k")); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v", name, r, err)
		} else if errext.Hint(err) == "" {
			t.Errorf("%s: no hint: %v", name, err)
		}
	}
}

func twice(m fstest.MapFS) {
	text := string(m["manifest.json"].Data)
	from, to := strings.Index(text, "[")+1, strings.Index(text, "]")
	m["manifest.json"].Data = []byte(text[:to] + "," + text[from:to] + text[to:])
}

// FuzzRead: no report makes it panic, and none yields a checksum that its rows do
// not hold.
func FuzzRead(f *testing.F) {
	f.Add([]byte("b,k,,succeeded,200,,"+abc("e")+"\n"), []byte(""))
	f.Add([]byte("b,a%20k,v,failed,AccessDenied,403,no\n"), []byte(`{"Format":"Report_CSV_20180820"}`))
	f.Fuzz(func(t *testing.T, rows, index []byte) {
		report := folder(map[string]string{"": string(rows)})
		if len(index) > 0 {
			report["manifest.json"].Data = index
		}
		r, err := Read(fs.FS(report), "b", everything)
		if err != nil {
			return
		}
		known, _ := r.Known()
		for key, k := range known {
			for _, s := range k.Sums {
				if _, err := digest.Parse(s.Digest.String()); err != nil || s.Evidence != store.Recomputed {
					t.Errorf("%q: %+v", key, s)
				}
			}
		}
	})
}
