package deploy
import ("testing";"os";"bufio";"encoding/json";"fmt";"reflect";"strings")
func TestZZ(t *testing.T) {
	a,_ := os.Open("/tmp/bk/in.jsonl"); b,_ := os.Open("/tmp/bk/out.jsonl"); sa, sb := bufio.NewScanner(a), bufio.NewScanner(b)
	bad := 0
	for sa.Scan() && sb.Scan() {
		var text string; var want []string
		json.Unmarshal(sa.Bytes(), &text); json.Unmarshal(sb.Bytes(), &want)
		if len(want) > 0 && strings.HasPrefix(want[0], "ERR") { continue }
		got := []string{}
		e, _ := directives([]byte(text))
		for _, in := range instructions([]byte(text), e) { if in.name == "FROM" {
			f := words(in.rest); v := ""
			for _, w := range f { if !strings.HasPrefix(w,"--") { v = w; break } }
			got = append(got, fmt.Sprintf("%d %s", in.line, v)) } }
		if !reflect.DeepEqual(got, want) { bad++; if bad < 8 { t.Errorf("%q\n got %q\nwant %q", text, got, want) } }
	}
	t.Log(bad)
}
