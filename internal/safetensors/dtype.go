package safetensors

// DType is an element type by its name in the file, such as BF16.
type DType string

// The element types that the stand-in engine computes with.
const (
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
)

var dtypeBits = map[DType]int{
	"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
	"BOOL": 8, "U8": 8, "I8": 8,
	"F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
	"U16": 16, "I16": 16, F16: 16, BF16: 16,
	"U32": 32, "I32": 32, F32: 32,
	"U64": 64, "I64": 64, "F64": 64, "C64": 64,
}

// Bits is the width of one element; false for a type that this package does
// not know (a newer writer's).
func (d DType) Bits() (int, bool) {
	b, ok := dtypeBits[d]
	return b, ok
}
