// Package parity holds no code but a test: verification through the S3 store,
// over a network that fails in every way that internal/faultproxy knows, of
// random trees with random damage, compared with the truth.
package parity
