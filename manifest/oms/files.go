package oms

import (
	"cmp"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
)

// signed is a file as the statement lists it. Its pieces follow one another from
// its first byte to its last; a file that was signed whole is one piece.
type signed struct {
	path   string
	pieces []piece
}

type piece struct {
	start, end int64 // end is math.MaxInt64 where the file was signed whole
	digest     string
}

// files turns the resources into files, ordered by path components.
func (s *Statement) files() ([]signed, error) {
	byPath := map[string][]piece{}
	for _, r := range s.Resources {
		path, p := r.Name, piece{0, math.MaxInt64, strings.ToLower(r.Digest)}
		if s.Serialization.Method == methodShards {
			var err error
			if path, p.start, p.end, err = parseShard(r.Name); err != nil {
				return nil, err
			}
		}
		if !fs.ValidPath(path) || path == "." {
			return nil, fmt.Errorf("the statement names %.200q, which is no path below the model", path)
		}
		byPath[path] = append(byPath[path], p)
	}
	var all []signed
	for path, pieces := range byPath {
		slices.SortFunc(pieces, func(a, b piece) int { return cmp.Compare(a.start, b.start) })
		if err := s.contiguous(pieces); err != nil {
			return nil, fmt.Errorf("the statement contradicts itself: %.200q %w", path, err)
		}
		all = append(all, signed{path, pieces})
	}
	slices.SortFunc(all, func(a, b signed) int { return comparePaths(a.path, b.path) })
	return all, nil
}

// parseShard reads "path:start:end"; the path may hold colons itself.
func parseShard(name string) (path string, start, end int64, err error) {
	if parts := strings.Split(name, ":"); len(parts) >= 3 {
		n := len(parts) - 2
		var errEnd error
		start, err = strconv.ParseInt(parts[n], 10, 64)
		end, errEnd = strconv.ParseInt(parts[n+1], 10, 64)
		if err == nil && errEnd == nil && start >= 0 && end > start {
			return strings.Join(parts[:n], ":"), start, end, nil
		}
	}
	return "", 0, 0, fmt.Errorf("the statement names the shard %.200q, want path:start:end", name)
}

// contiguous wants pieces without gap or overlap, all but the last of the
// announced size: a byte between two shards would be a byte that nobody signed.
func (s *Statement) contiguous(pieces []piece) error {
	if s.Serialization.Method == methodFiles {
		if len(pieces) > 1 {
			return fmt.Errorf("stands %d times", len(pieces))
		}
		return nil
	}
	size := int64(s.Serialization.ShardSize)
	for i, p := range pieces {
		last := i == len(pieces)-1
		if p.start != int64(i)*size || p.end-p.start > size || (!last && p.end-p.start != size) {
			return fmt.Errorf("has a shard from %d to %d, where one of %d bytes from %d was due", p.start, p.end, size, int64(i)*size)
		}
	}
	return nil
}
