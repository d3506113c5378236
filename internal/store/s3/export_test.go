package s3

import "github.com/aws/aws-sdk-go-v2/aws"

// PartSize is the size of the parts of an object of size bytes by default.
func PartSize(size int64) int64 {
	s := &Store{opts: Options{}.complete()}
	return s.partSize(size)
}

// Escape is how a copy's source is written.
func Escape(text string) string { return escape(text) }

// Credentials are those that a store was opened with.
func (s *Store) Credentials() aws.CredentialsProvider { return s.opts.Credentials }
