package mem_test

import (
	"testing"

	"drkit/internal/store"
	"drkit/internal/store/mem"
	"drkit/internal/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.ReadWriter { return mem.New() })
	t.Run("claims and copies", func(t *testing.T) {
		storetest.Run(t, func(*testing.T) store.ReadWriter {
			s := mem.New()
			s.Claims, s.ListsSums = []string{"sha256", "crc64nvme", "crc32c", "md5"}, true
			return mem.Copying{Store: s}
		}, storetest.Large(1<<20))
	})
}
