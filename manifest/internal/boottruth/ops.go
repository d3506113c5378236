// Package boottruth lays out the cases of testdata/boot-truth for tests: small
// model repositories with one change each, whose outcome was measured by booting
// a real engine on them.
package boottruth

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"drkit/internal/store"
)

// Tree is a case's directory in memory: a source of the files beneath it. links
// are symbolic links that lead nowhere.
type Tree struct {
	Files map[string][]byte
	Links map[string]bool
	Bases string
	repo  string // hub id, when the repository lies in a hub cache
}

// refs is the folder of a hub cache that names commits.
func (t *Tree) refs(repo string) string {
	return "hf/hub/models--" + strings.ReplaceAll(repo, "/", "--") + "/refs/"
}

// Pin is the commit of a hub cache; "" for a plain folder.
func (t *Tree) Pin(context.Context) (repo, commit string, err error) {
	if t.repo == "" {
		return "", "", nil
	}
	return t.repo, strings.Repeat("1", 40), nil
}

// Refs lists what stands under refs/.
func (t *Tree) Refs(context.Context) (names []string, err error) {
	for _, k := range t.beneath(strings.TrimSuffix(t.refs(t.repo), "/")) {
		names = append(names, path.Base(k))
	}
	return names, nil
}

func (t *Tree) List(_ context.Context, prefix string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		keys := slices.Collect(maps.Keys(t.Files))
		for k := range t.Links {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			if !strings.HasPrefix(k, prefix) {
				continue
			}
			if t.Links[k] {
				if !yield(store.Object{}, &store.LinkError{Key: k, Target: "../../blobs/gone"}) {
					return
				}
			} else if !yield(store.Object{Key: k, Size: int64(len(t.Files[k]))}, nil) {
				return
			}
		}
	}
}

func (t *Tree) Open(_ context.Context, o store.Object, off, n int64) (io.ReadCloser, error) {
	data, ok := t.Files[o.Key]
	if !ok {
		return nil, store.ErrNotFound
	}
	if data = data[off:]; n >= 0 {
		data = data[:n]
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// addBase reads a base repository; one without weights gets them written by the
// header that stands in their place, with zero bytes for data.
func (t *Tree) addBase(name, to string) error {
	root := filepath.Join(t.Bases, name)
	return filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		key := path.Join(to, filepath.ToSlash(rel))
		if plain, ok := strings.CutSuffix(key, ".header.json"); ok {
			data, key = fromHeader(data), plain
		}
		t.Files[key] = data
		return nil
	})
}

func fromHeader(header []byte) []byte {
	end := int64(0)
	for _, e := range decodeHeader(header) {
		end = max(end, e.Offsets[1])
	}
	return frame(bytes.TrimSpace(header), make([]byte, end))
}

// Op is one change of a case, as cases.jsonl has it.
type Op struct {
	Op, File, To, Base, Other, Text, Hex, Find, Shard, Tensor, Suffix, Prefix string
	Count, Step, Start, Elements, Rotate, Drop                                int
	Mask                                                                      byte
	KeepBytes                                                                 *int     `json:"keep_bytes"`
	DropBytes                                                                 *int     `json:"drop_bytes"`
	KeepFraction                                                              *float64 `json:"keep_fraction"`
	Fraction                                                                  float64
	Add                                                                       int64
	Value                                                                     json.RawMessage
	Path                                                                      []any
	Anywhere, Index                                                           bool
	Names                                                                     map[string]string
	Tensors                                                                   map[string][]int64
	BlobOf                                                                    string `json:"blob_of"`
	Repo                                                                      string
}

func (t *Tree) apply(o Op) error {
	switch {
	case strings.HasPrefix(o.Op, "st_"):
		return t.safetensors(o)
	case strings.HasPrefix(o.Op, "json_") || strings.HasPrefix(o.Op, "index_") || strings.HasPrefix(o.Op, "quant_") || strings.HasPrefix(o.Op, "template_"):
		return t.json(o)
	}
	return t.plain(o)
}

func (t *Tree) need(file string) ([]byte, error) {
	data, ok := t.Files[file]
	if !ok {
		return nil, fmt.Errorf("no file %s", file)
	}
	return data, nil
}

func (t *Tree) beneath(dir string) (out []string) {
	for _, k := range slices.Sorted(maps.Keys(t.Files)) {
		if strings.HasPrefix(k, dir+"/") {
			out = append(out, k)
		}
	}
	return out
}

// plain applies the changes that do not look into a file.
func (t *Tree) plain(o Op) error {
	switch o.Op {
	case "mkdir", "link_out": // a folder is its files; a link that leads to its file reads as the file
		return nil
	case "write":
		t.Files[o.File] = []byte(o.Text)
		return nil
	case "add_base":
		return t.addBase(o.Base, o.To)
	case "rm_tree":
		for _, k := range t.beneath(o.File) {
			delete(t.Files, k)
		}
		return nil
	case "copy_tree":
		for _, k := range t.beneath(o.File) {
			t.Files[o.To+strings.TrimPrefix(k, o.File)] = t.Files[k]
		}
		return nil
	case "to_bin": // any bytes do for a static check
		t.Files[o.To] = []byte("PK\x03\x04 weights")
		return nil
	case "hf_cache": // the snapshot folder is what is read
		t.Files[t.refs(o.Repo)+"main"] = []byte(strings.Repeat("1", 40))
		t.repo = o.Repo
		return nil
	case "rm_blob":
		delete(t.Files, "model/"+o.BlobOf)
		t.Links["model/"+o.BlobOf] = true
		return nil
	}
	data, err := t.need(o.File)
	if err != nil {
		return err
	}
	return t.change(o, bytes.Clone(data))
}

func (t *Tree) change(o Op, data []byte) error {
	switch o.Op {
	case "rm":
		delete(t.Files, o.File)
	case "rename":
		delete(t.Files, o.File)
		t.Files[o.To] = data
	case "copy":
		t.Files[o.To] = data
	case "swap":
		t.Files[o.File], t.Files[o.Other] = t.Files[o.Other], data
	case "append_text":
		t.Files[o.File] = append(data, o.Text...)
	case "append":
		t.Files[o.File] = append(data, make([]byte, o.Count)...)
	case "prepend_hex":
		head, err := hex.DecodeString(o.Hex)
		t.Files[o.File] = append(head, data...)
		return err
	case "truncate":
		t.Files[o.File] = data[:keep(o, len(data))]
	case "replace":
		if !bytes.Contains(data, []byte(o.Find)) {
			return fmt.Errorf("%s does not hold %q", o.File, o.Find)
		}
		t.Files[o.File] = bytes.Replace(data, []byte(o.Find), []byte(o.To), 1)
	case "lfs_pointer":
		t.Files[o.File] = fmt.Appendf(nil, "version https://git-lfs.github.com/spec/v1\noid sha256:%x\nsize %d\n", sha256.Sum256(data), len(data))
	case "header_len":
		n := binary.LittleEndian.Uint64(data) + uint64(o.Add)
		if len(o.Value) > 0 {
			if err := json.Unmarshal(o.Value, &n); err != nil {
				return err
			}
		}
		binary.LittleEndian.PutUint64(data, n)
		t.Files[o.File] = data
	default:
		return fmt.Errorf("unknown op %s", o.Op)
	}
	return nil
}

func keep(o Op, size int) int {
	switch {
	case o.KeepBytes != nil:
		return *o.KeepBytes
	case o.DropBytes != nil:
		return size - *o.DropBytes
	}
	return int(float64(size) * *o.KeepFraction)
}

// json applies the changes to JSON files.
func (t *Tree) json(o Op) error {
	data, err := t.need(o.File)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var root any
	if err := d.Decode(&root); err != nil {
		return err
	}
	object := root.(map[string]any)
	if err := t.edit(o, object); err != nil {
		return err
	}
	return t.save(o.File, object)
}

func (t *Tree) save(file string, v any) error {
	text, err := json.MarshalIndent(v, "", " ")
	t.Files[file] = append(text, '\n')
	return err
}

func (t *Tree) edit(o Op, object map[string]any) error {
	parent, last := any(object), any(nil)
	for i, k := range o.Path {
		if last = k; i < len(o.Path)-1 {
			parent = step(parent, k)
		}
	}
	key := fmt.Sprint(last)
	var value any
	if len(o.Value) > 0 {
		if err := json.Unmarshal(o.Value, &value); err != nil {
			return err
		}
	}
	switch o.Op {
	case "json_set":
		parent.(map[string]any)[key] = value
	case "json_del":
		delete(parent.(map[string]any), key)
	case "json_rename":
		m := parent.(map[string]any)
		m[o.To] = m[key]
		delete(m, key)
	case "json_move_out":
		m := parent.(map[string]any)
		moved := m[key]
		delete(m, key)
		return t.save(o.To, moved)
	case "json_append":
		m := parent.(map[string]any)
		m[key] = append(m[key].([]any), value)
	case "json_cut_list":
		m := parent.(map[string]any)
		list := m[key].([]any)
		m[key] = list[:len(list)-o.Drop]
	case "json_reverse_keys", "json_compact": // saving writes them otherwise
	default:
		return t.special(o, object)
	}
	return nil
}

func step(v, k any) any {
	if n, ok := k.(float64); ok {
		return v.([]any)[int(n)]
	}
	return v.(map[string]any)[k.(string)]
}

func (t *Tree) special(o Op, object map[string]any) error {
	switch o.Op {
	case "index_drop_file":
		maps.DeleteFunc(object["weight_map"].(map[string]any), func(_ string, file any) bool { return file == o.Shard })
	case "index_map_names":
		m := object["weight_map"].(map[string]any)
		for tensor, file := range m {
			m[tensor] = o.Names[file.(string)]
		}
	case "quant_config_from":
		data, err := os.ReadFile(filepath.Join(t.Bases, o.Base, "config.json"))
		if err != nil {
			return err
		}
		var other map[string]any
		if err := json.Unmarshal(data, &other); err != nil {
			return err
		}
		object["quantization_config"] = other["quantization_config"]
	case "quant_config_to_file":
		moved := object["quantization_config"]
		delete(object, "quantization_config")
		return t.save(o.To, moved)
	case "template_to_list":
		data, err := os.ReadFile(filepath.Join(t.Bases, "llama-sharded", "chat_template.jinja"))
		if err != nil {
			return err
		}
		object["chat_template"] = []any{map[string]any{"name": "default", "template": string(data)},
			map[string]any{"name": "tool_use", "template": "{{ messages[0]['content'] }}"}}
	case "template_to_config":
		object["chat_template"] = string(t.Files["model/chat_template.jinja"])
		delete(t.Files, "model/chat_template.jinja")
	default:
		return fmt.Errorf("unknown op %s", o.Op)
	}
	return nil
}

// Entry is a tensor in a header, with its data.
type Entry struct {
	DType   string   `json:"dtype"`
	Shape   []int64  `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
	Data    []byte   `json:"-"`
}

func decodeHeader(text []byte) map[string]*Entry {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		panic(err)
	}
	out := map[string]*Entry{}
	for name, r := range raw {
		if name != "__metadata__" {
			out[name] = &Entry{}
			if err := json.Unmarshal(r, out[name]); err != nil {
				panic(err)
			}
		}
	}
	return out
}

// Load reads the tensors of a safetensors file.
func Load(data []byte) map[string]*Entry {
	n := binary.LittleEndian.Uint64(data)
	tensors := decodeHeader(data[8 : 8+n])
	for _, e := range tensors {
		e.Data = data[8+n:][e.Offsets[0]:e.Offsets[1]]
	}
	return tensors
}

func frame(header, data []byte) []byte {
	for len(header)%8 != 0 {
		header = append(header, ' ')
	}
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header, data)
}

// Pack writes tensors as a safetensors file.
func Pack(tensors map[string]*Entry) []byte {
	names := slices.SortedFunc(maps.Keys(tensors), func(a, b string) int {
		return cmp.Or(cmp.Compare(tensors[a].Offsets[0], tensors[b].Offsets[0]), cmp.Compare(a, b))
	})
	header := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	var data []byte
	for _, name := range names {
		e := tensors[name]
		header[name] = Entry{DType: e.DType, Shape: e.Shape, Offsets: [2]int64{int64(len(data)), int64(len(data) + len(e.Data))}}
		data = append(data, e.Data...)
	}
	text, err := json.Marshal(header)
	if err != nil {
		panic(err)
	}
	return frame(text, data)
}

// safetensors applies the changes to tensors.
func (t *Tree) safetensors(o Op) error {
	switch o.Op {
	case "st_merge":
		all := map[string]*Entry{}
		for _, s := range t.shards() {
			maps.Copy(all, Load(t.Files[s]))
		}
		t.Files[o.To] = Pack(all)
		return nil
	case "st_write":
		all := map[string]*Entry{}
		for name, shape := range o.Tensors {
			all[name] = &Entry{DType: "BF16", Shape: shape, Data: make([]byte, 2*shape[0]*shape[1])}
		}
		t.Files[o.File] = Pack(all)
		return nil
	case "st_xor", "st_zero_tail", "st_rotate": // other values, which no header shows
		return t.values(o)
	}
	file, err := t.find(o)
	if err != nil {
		return err
	}
	tensors := Load(t.Files[file])
	if o.Op == "st_no_metadata" {
		return nil
	}
	if err := edit(o, tensors); err != nil {
		return err
	}
	t.Files[file] = Pack(tensors)
	return t.forget(o)
}

func edit(o Op, tensors map[string]*Entry) error {
	before := len(tensors)
	switch o.Op {
	case "st_del":
		delete(tensors, o.Tensor)
	case "st_del_suffix":
		maps.DeleteFunc(tensors, func(n string, _ *Entry) bool { return strings.HasSuffix(n, o.Suffix) })
	case "st_del_prefix":
		maps.DeleteFunc(tensors, func(n string, _ *Entry) bool { return strings.HasPrefix(n, o.Prefix) })
	case "st_rename":
		for name, e := range maps.Clone(tensors) {
			if to := strings.ReplaceAll(name, o.Find, o.To); to != name {
				delete(tensors, name)
				tensors[to] = e
			}
		}
		return nil
	case "st_transpose":
		slices.Reverse(tensors[o.Tensor].Shape)
		return nil
	case "st_cast":
		for _, e := range tensors {
			e.DType, e.Data = "F32", make([]byte, 2*len(e.Data))
		}
		return nil
	default:
		return fmt.Errorf("unknown op %s", o.Op)
	}
	if len(tensors) == before {
		return fmt.Errorf("%s changed nothing", o.Op)
	}
	return nil
}

// forget drops deleted tensors from the index.
func (t *Tree) forget(o Op) error {
	const index = "model/model.safetensors.index.json"
	if !o.Index {
		return nil
	}
	var ix map[string]any
	if err := json.Unmarshal(t.Files[index], &ix); err != nil {
		return err
	}
	maps.DeleteFunc(ix["weight_map"].(map[string]any), func(n string, _ any) bool {
		return n == o.Tensor || o.Prefix != "" && strings.HasPrefix(n, o.Prefix)
	})
	return t.save(index, ix)
}

func (t *Tree) shards() (out []string) {
	for _, k := range t.beneath("model") {
		if strings.HasPrefix(k, "model/model") && strings.HasSuffix(k, ".safetensors") {
			out = append(out, k)
		}
	}
	return out
}

// find is the named file, or the shard that holds the tensor: sharding is the
// writer's choice.
func (t *Tree) find(o Op) (string, error) {
	if !o.Anywhere {
		_, err := t.need(o.File)
		return o.File, err
	}
	want := cmp.Or(o.Tensor, o.Find)
	for _, s := range t.shards() {
		for name := range Load(t.Files[s]) {
			if strings.HasPrefix(name, want) {
				return s, nil
			}
		}
	}
	return "", fmt.Errorf("no shard holds %s", want)
}

// values changes the data of a weight file and leaves its header alone.
func (t *Tree) values(o Op) error {
	data, err := t.need(o.File)
	if err != nil {
		return err
	}
	data = bytes.Clone(data)
	body := data[8+binary.LittleEndian.Uint64(data):]
	switch o.Op {
	case "st_rotate": // by elements of two bytes
		copy(body, slices.Concat(body[2*o.Elements:], body[:2*o.Elements]))
	case "st_zero_tail":
		clear(body[len(body)-int(o.Fraction*float64(len(body))):])
	default:
		body[len(body)/2] ^= 0x40
	}
	t.Files[o.File] = data
	return nil
}
