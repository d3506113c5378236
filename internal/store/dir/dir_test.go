package dir

import (
	"testing"

	"drkit/internal/store"
	"drkit/internal/store/storetest"
)

func TestConformance(t *testing.T) {
	t.Run("following links", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.ReadWriter { return New(t.TempDir()) })
	})
	t.Run("plain", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.ReadWriter { return Plain(t.TempDir() + "/not/there/yet") })
	})
}
