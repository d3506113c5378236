package mem_test

import (
	"testing"

	"drkit/internal/store"
	"drkit/internal/store/mem"
	"drkit/internal/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.ReadWriter { return mem.New() })
}
