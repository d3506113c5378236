package dir

import (
	"fmt"
	"syscall"
	"time"

	"drkit/internal/store"
)

var _ store.Identified = (*Store)(nil)

// Identity names the inode and its change time, which no program can set back as
// it can the time of modification.
func (s *Store) Identity(o store.Object) (string, time.Time) {
	_, info, err := s.find(o.Key)
	if err != nil {
		return "", time.Time{}
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", time.Time{}
	}
	changed := time.Unix(st.Ctim.Unix())
	return fmt.Sprintf("dev %d inode %d changed %s", st.Dev, st.Ino, changed.UTC().Format(time.RFC3339Nano)), changed
}
