package standin

// llama3Want are the frequencies of Llama 3.1's scheme (theta 500000, factor 8,
// low 1, high 4, original length 8192) for a head of 16.
var llama3Want = []float64{1.0, 0.19392274474868576, 0.03760603093086393, 0.0072926647372171085, 0.0005248461609929547, 3.428102195952591e-05, 6.647869871181236e-06, 1.2891731721515574e-06}
