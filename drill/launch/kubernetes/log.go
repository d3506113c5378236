package kubernetes

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	maxLine = 1 << 20  // bytes; a longer line is cut into several
	maxLog  = 64 << 20 // bytes of a log that are kept in a file
)

// Log follows the engine's log from its beginning, of an earlier start of the container
// first where there was one. It ends when the container has ended and everything was
// read, or with ctx's error. A connection that breaks is made anew, from where it broke
// as far as time stamps can tell: a line may come twice then, none is left out.
func (r *Replica) Log(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := r.begun(ctx); err != nil {
			yield("", fmt.Errorf("following the log of %s: %w", r.id, err))
			return
		}
		lines := &logReader{yield: yield}
		if r.restarted() {
			_ = r.stream(ctx, &corev1.PodLogOptions{Container: r.container, Previous: true, Timestamps: true}, lines)
		}
		for !lines.enough {
			over := r.ExitState() != "" // before the reading: what follows the end is read once more
			o := &corev1.PodLogOptions{Container: r.container, Follow: !over, Timestamps: true, SinceTime: lines.since()}
			err := r.stream(ctx, o, lines)
			if lines.enough || over {
				return
			}
			if ctx.Err() != nil {
				yield("", fmt.Errorf("following the log of %s: %w", r.id, context.Cause(ctx)))
				return
			}
			_ = err // the API server's: the pod lives on, and is asked again
			select {
			case <-ctx.Done():
			case <-r.exited:
			case <-time.After(startEvery):
			}
		}
	}
}

// begun waits until the engine's container has run at all.
func (r *Replica) begun(ctx context.Context) error {
	r.watch()
	for {
		r.mu.Lock()
		ran := slices.ContainsFunc(r.pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.Name == r.container && (s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil)
		})
		r.mu.Unlock()
		if ran {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.exited:
			return nil // what there is to read is read once
		case <-time.After(startEvery / 2):
		}
	}
}

func (r *Replica) restarted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == r.container && s.RestartCount > 0 })
}

// stream reads a log once, until it ends or breaks.
func (r *Replica) stream(ctx context.Context, o *corev1.PodLogOptions, lines *logReader) error {
	body, err := r.l.logs(ctx, r.name, o)
	if err != nil {
		return err
	}
	defer body.Close()
	return lines.read(body)
}

func (l *Launcher) logs(ctx context.Context, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error) {
	return l.core.Get().Namespace(l.o.Namespace).Resource("pods").Name(pod).SubResource("log").VersionedParams(o, parameters()).Stream(ctx)
}

// logReader cuts a log into lines and remembers where it was.
type logReader struct {
	yield  func(string, error) bool
	enough bool
	last   time.Time // stamp of the last line
	seen   []string  // lines of the second of last: a log can only be asked for by the second
}

func (l *logReader) since() *metav1.Time {
	if l.last.IsZero() {
		return nil
	}
	t := metav1.NewTime(l.last)
	return &t
}

func (l *logReader) read(from io.Reader) error {
	in := bufio.NewReaderSize(from, 64<<10)
	for !l.enough {
		line, err := readLine(in)
		if len(line) > 0 || err == nil {
			l.line(string(bytes.ToValidUTF8(line, []byte("\uFFFD"))))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func readLine(in *bufio.Reader) (line []byte, err error) {
	for len(line) < maxLine {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if err != bufio.ErrBufferFull {
			return bytes.TrimRight(line, "\r\n"), err
		}
	}
	return line, nil
}

// line takes a stamped line, drops it if it was read before, and yields what a carriage
// return ends as lines of their own: progress bars write nothing else for minutes.
func (l *logReader) line(stamped string) {
	stamp, text, _ := strings.Cut(stamped, " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		text = stamped
	} else {
		switch second := at.Truncate(time.Second); {
		case at.Before(l.last.Truncate(time.Second)):
			return
		case slices.Contains(l.seen, stamped):
			return
		case second.After(l.last.Truncate(time.Second)):
			l.seen = nil
		}
		l.last, l.seen = at, append(l.seen, stamped)
	}
	for part := range strings.SplitSeq(strings.TrimRight(text, "\r"), "\r") {
		if !l.enough && !l.yield(part, nil) {
			l.enough = true
		}
	}
}

// Tail gives the last n lines of the log, fewer when there are fewer or when the log
// cannot be read.
func (r *Replica) Tail(n int) []string { return r.l.tail(context.Background(), r.name, r.container, n) }

func (l *Launcher) tail(ctx context.Context, pod, container string, n int) []string {
	ctx, cancel := asking(ctx)
	defer cancel()
	lines := int64(n)
	body, err := l.logs(ctx, pod, &corev1.PodLogOptions{Container: container, TailLines: &lines})
	if err != nil {
		return nil
	}
	defer body.Close()
	text, _ := io.ReadAll(io.LimitReader(body, maxLine))
	if len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimRight(string(bytes.ToValidUTF8(text, []byte("\uFFFD"))), "\n"), "\n")
}

// keepLog writes the whole log to a file before the pod goes, as far as it can be read,
// and those of a group's workers beside it: a log that is lost keeps no pod alive.
func (r *Replica) keepLog(ctx context.Context) {
	if r.logPath == "" {
		return
	}
	r.l.keepLog(ctx, r.name, r.container, r.logPath)
	if r.size < 2 {
		return
	}
	all, _ := r.l.listed(ctx, r.selector())
	for _, pod := range all {
		if belongs(pod, r.leader) {
			end := filepath.Ext(r.logPath)
			r.l.keepLog(ctx, pod.Name, pod.Annotations[annotContainer], strings.TrimSuffix(r.logPath, end)+".worker-"+pod.Labels[LabelWorker]+end)
		}
	}
}

func (l *Launcher) keepLog(ctx context.Context, pod, container, path string) {
	ctx, cancel := asking(ctx)
	defer cancel()
	limit := int64(maxLog)
	body, err := l.logs(ctx, pod, &corev1.PodLogOptions{Container: container, LimitBytes: &limit})
	if err != nil {
		return
	}
	defer body.Close()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = io.Copy(f, body)
}
