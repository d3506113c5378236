package batch

import (
	"crypto/md5"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"drkit/internal/errext"
)

const reportFormat = "Report_CSV_20180820"

// Bounds of what is read. A result message holds a few hundred bytes.
const (
	maxIndex  = 8 << 20 // bytes of a report's manifest.json
	maxRecord = 1 << 20 // bytes of one row
)

// Report is what a completion report says of the objects that were asked for.
type Report struct {
	Created time.Time // when S3 wrote it; zero: not said
	Tasks   []Task    // of keys that were asked for, in the report's order
	Others  int       // tasks of keys that were not asked for
}

// Task is one row of a report.
type Task struct {
	Key, Version string
	Failed       bool
	Code         string // S3's error code, where the task failed
	HTTP         string
	Message      string // of a failed task
	Result       Result // of one that succeeded
}

// Result is what a task of S3ComputeObjectChecksum answers.
type Result struct {
	Algorithm string `json:"checksumAlgorithm"`
	Type      string `json:"checksumType"`
	Base64    string `json:"checksum_base64"`
	Hex       string `json:"checksum_hex"`
	ETag      string `json:"etag"`
}

// index is a report's manifest.json.
type index struct {
	Format             string
	ReportCreationDate string
	ReportSchema       string
	Results            []indexed
}

type indexed struct{ TaskExecutionStatus, Bucket, MD5Checksum, Key string }

// Read reads a whole completion report: manifest.json and the files that it
// names, as they lie below the job's folder. Only tasks of the bucket and of keys
// for which wanted is true are kept. A file that is missing or not what the index
// says, and a row that cannot be read, are errors: a report that is read in part
// would hide failed tasks.
func Read(report fs.FS, bucket string, wanted func(key string) bool) (*Report, error) {
	idx, err := readIndex(report)
	if err != nil {
		return nil, hinted(fmt.Errorf("reading %s of the completion report: %w", indexName, err))
	}
	r := reader{bucket: bucket, wanted: wanted}
	for _, result := range idx.Results {
		if err := r.file(report, result); err != nil {
			return nil, hinted(fmt.Errorf("reading the completion report's %s: %w", path.Base(result.Key), err))
		}
	}
	out := &Report{Others: r.others}
	if idx.ReportCreationDate != "" {
		if out.Created, err = time.Parse(time.RFC3339, idx.ReportCreationDate); err != nil {
			return nil, hinted(fmt.Errorf("the completion report's date %q cannot be read", idx.ReportCreationDate))
		}
	}
	out.Tasks, err = r.settle()
	return out, err
}

const indexName = "manifest.json"

func hinted(err error) error {
	return errext.WithHint(err, "fetch the whole folder job-… of the report again: aws s3 cp --recursive")
}

func readIndex(report fs.FS) (index, error) {
	var idx index
	f, err := report.Open(indexName)
	if err != nil {
		return idx, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxIndex+1))
	switch {
	case err != nil:
		return idx, err
	case len(data) > maxIndex:
		return idx, fmt.Errorf("it has more than %d bytes", maxIndex)
	}
	if err := json.Unmarshal(data, &idx); err != nil {
		return idx, fmt.Errorf("it is no JSON object of a report: %w", err)
	}
	return idx, idx.check()
}

func (idx index) check() error {
	schema := strings.Join(strings.FieldsFunc(idx.ReportSchema, func(r rune) bool { return r == ',' || r == ' ' }), ",")
	switch {
	case idx.Format != reportFormat:
		return fmt.Errorf("the format is %q, want %s", idx.Format, reportFormat)
	case schema != "" && schema != "Bucket,Key,VersionId,TaskStatus,ErrorCode,HTTPStatusCode,ResultMessage" && schema != "Bucket,Key,VersionId,TaskStatus,HTTPStatusCode,ErrorCode,ResultMessage":
		return fmt.Errorf("the columns are %q, which are not those of a checksum job", idx.ReportSchema)
	case len(idx.Results) == 0:
		return errors.New("it names no results")
	}
	return nil
}

// reader collects rows; what their keys are is settled at the end.
type reader struct {
	bucket string
	wanted func(string) bool
	rows   []row
	others int
	seen   map[string]bool // files that were read
}

// file reads one CSV and proves that it is the one that the index means.
func (r *reader) file(report fs.FS, result indexed) error {
	name := path.Join("results", path.Base(result.Key))
	if r.seen[name] {
		return errors.New("the index names it twice")
	}
	f, err := report.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	r.seen[name] = true
	sum := md5.New()
	if err := r.records(io.TeeReader(f, sum), result.TaskExecutionStatus); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); !strings.EqualFold(got, result.MD5Checksum) {
		return fmt.Errorf("its MD5 is %s, and the index says %q", got, result.MD5Checksum)
	}
	return nil
}

func (r *reader) records(from io.Reader, status string) error {
	bound := &bounded{r: from}
	rows := csv.NewReader(bound)
	rows.FieldsPerRecord, rows.ReuseRecord = 7, true
	for n := 1; ; n++ {
		bound.left = maxRecord
		fields, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.row(fields, status); err != nil {
			return fmt.Errorf("row %d: %w", n, err)
		}
	}
}

// bounded keeps one row from filling the memory.
type bounded struct {
	r    io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("a row has more than %d bytes", maxRecord)
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// row takes one row in. The documentation's order has the error code before the
// HTTP status, its examples the other way round: the number tells.
func (r *reader) row(fields []string, status string) error {
	bucket, task := fields[0], Task{Version: fields[2], Code: fields[4], HTTP: fields[5]}
	if numeric(task.Code) {
		task.Code, task.HTTP = task.HTTP, task.Code
	}
	switch strings.ToLower(fields[3]) {
	case "succeeded":
	case "failed":
		task.Failed, task.Message = true, strings.Clone(fields[6])
	default:
		return fmt.Errorf("the task's status is %q", fields[3])
	}
	if status != "" && !strings.EqualFold(status, fields[3]) {
		return fmt.Errorf("the task's status is %s in a file of tasks that are %s", fields[3], status)
	}
	if bucket != r.bucket {
		r.others++
		return nil
	}
	if !task.Failed {
		if err := json.Unmarshal([]byte(fields[6]), &task.Result); err != nil {
			return fmt.Errorf("%s: the result %.60q is not that of a checksum job", fields[1], fields[6])
		}
	}
	r.add(strings.Clone(fields[1]), task)
	return nil
}

func numeric(text string) bool { return len(text) == 3 && strings.Trim(text, "0123456789") == "" }
